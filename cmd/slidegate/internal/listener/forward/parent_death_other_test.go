//go:build !linux

package forward

import "os/exec"

// dieWithUs does nothing: only Linux supports it.
func dieWithUs(*exec.Cmd) {}
