package kit

import (
	"os/exec"
	"syscall"
)

// DieWithUs makes the system kill a program when the test's process ends without cleaning up, as it does after a test
// timeout.
func DieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
