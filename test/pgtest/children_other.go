//go:build !linux

package pgtest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// children returns the processes that a process started and that still run.
func children(parent int) (pids []int) {
	text, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// running reports whether a process exists.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }
