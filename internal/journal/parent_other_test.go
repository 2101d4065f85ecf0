//go:build !linux

package journal_test

import "os/exec"

func dieWithUs(*exec.Cmd) {}
