package systemd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Reloading reports that a reload begins now; Ready reports its end. systemd recognises the reload that it requested by the time.
func Reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
