//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filelock

import "os"

// Lock does nothing on systems without such a call.
func Lock(*os.File) error { return nil }

// Held reports false.
func Held(*os.File) bool { return false }
