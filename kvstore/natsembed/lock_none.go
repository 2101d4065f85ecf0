//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package natsembed

import "os"

// flock does nothing where there is no such call.
func flock(*os.File) error { return nil }
