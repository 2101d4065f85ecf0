//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time of this process, and whether the system reports it.
func cpuTime() (time.Duration, bool) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, false
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), true
}
