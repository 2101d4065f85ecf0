//go:build !linux

package memstore

import "unsafe"

// recordAllocation requests huge pages, on Linux only.
func recordAllocation(unsafe.Pointer, int) {}
