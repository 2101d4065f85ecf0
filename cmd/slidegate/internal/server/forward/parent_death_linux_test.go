package forward

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the system end a proxy when the test's process ends without cleaning up.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
