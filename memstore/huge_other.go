//go:build !linux

package memstore

import "unsafe"

// placed requests huge pages, on Linux only.
func placed(unsafe.Pointer, int) {}
