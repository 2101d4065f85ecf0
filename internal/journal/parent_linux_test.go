package journal_test

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes a process end when the test does.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
