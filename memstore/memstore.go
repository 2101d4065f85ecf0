// Package memstore keeps the state of limits in the memory of the process.
package memstore
