package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the system end a server when the test's process ends without cleaning up, as it does when it runs out of
// time.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
