// Package porttest checks a store that does not run the rule in Go but a port of it: a script, or functions in a
// database. Such a store must answer as the rule does, bit for bit, over the whole accepted range of limits
// (SameAsRule), and like the limiters whose decisions were recorded (Traces). Both send the same requests to the store
// and the rule, through a Twin.
package porttest
