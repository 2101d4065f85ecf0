package testkit

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill a program when the test process ends without cleaning up.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
