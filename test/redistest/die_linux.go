package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes the system end a server when the test's process ends without cleaning up, for example after a
// timeout.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
