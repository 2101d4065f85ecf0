//go:build !linux

package redistest

import "os/exec"

// dieWithUs does nothing here: other systems have no way to end a server with the test's process.
func dieWithUs(*exec.Cmd) {}
