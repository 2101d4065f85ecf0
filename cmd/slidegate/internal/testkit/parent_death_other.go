//go:build !linux

package testkit

import "os/exec"

// dieWithUs does nothing: only Linux supports it.
func dieWithUs(*exec.Cmd) {}
