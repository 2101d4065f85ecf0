package kit

import (
	"os/exec"
	"syscall"
)

// KillWithParent makes the system kill a program when the test's process ends without cleaning up, as it does after a test
// timeout.
func KillWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
