// Package rulings has what operators decide about single keys while the service runs: to refuse one, or to give it other limits,
// until a time. Rulings are kept beside the counts, so that all instances that share a store obey them and a restart forgets none,
// and every change is kept in a log.
package rulings
