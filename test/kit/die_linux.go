package kit

import (
	"os/exec"
	"syscall"
)

// DieWithUs has the system end a program when the test's process ends without cleaning up, as it does when it runs out of
// time.
func DieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
