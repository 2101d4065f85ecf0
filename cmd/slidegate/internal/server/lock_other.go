//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package server

import "os"

// flock does nothing on systems without such a call.
func flock(*os.File) error { return nil }
