// Package rulings implements rulings: what operators decide about single keys while the service runs, to block a key or
// to give it other limits, until a time. Rulings are stored next to the counts, so that all instances that share a
// store apply them, and they survive restarts. Every change is logged in the store.
package rulings
