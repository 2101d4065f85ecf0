// Package porttest checks a store that does not run the rule in Go but a port of it: a script, or functions in a database.
// Such a store must answer as the rule does, bit for bit, over the whole accepted range of limits (SameAsRule), and as the
// limiters did whose decisions were recorded (Traces). Both ask the store and the rule the same things, through a Twin.
package porttest
