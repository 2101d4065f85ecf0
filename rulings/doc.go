// Package rulings keeps what operators decide about single keys while a program runs: to block a key, or to give it other limits, until a
// time. A Book keeps them in the store beside the counts, with a log of all changes, so that all processes that share the store apply
// them and they survive restarts. Middleware follows a Book: see Follow of httplimit.Middleware and grpclimit.Interceptors.
package rulings
