// Package outage tests what the middlewares do when Redis does not answer, and when this process itself does not run.
// It contains only tests.
package outage
