package systemd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reloading says that a reload begins now; Ready says that it is over. systemd tells by the time whether it is the reload that it asked for.
func Reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
