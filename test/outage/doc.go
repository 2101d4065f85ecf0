// Package outage tests what the middlewares do when Redis does not answer, and when it is this process that does not run. It
// has only tests.
package outage
