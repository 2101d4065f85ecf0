//go:build !linux

package kit

import "os/exec"

// KillWithParent does nothing: only Linux can kill a program when the test's process ends.
func KillWithParent(*exec.Cmd) {}
