//go:build !linux

package listen

import (
	"errors"
	"net"
	"syscall"
)

// reusePort is for net.ListenConfig.
func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("to share a port with another process works on Linux alone; leave --reuse-port out")
}

// acceptWaiting returns nothing: only on Linux can the queue be emptied.
func acceptWaiting(net.Listener) []net.Conn { return nil }
