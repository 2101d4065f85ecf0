//go:build !linux

package memstore

import "unsafe"

// placed is about huge pages, which only Linux is asked for.
func placed(unsafe.Pointer, int) {}
