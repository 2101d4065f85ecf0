// Package formats checks that a store rejects what it does not understand: state in a format with another number is an error that names both
// numbers, and is left as it is.
package formats
