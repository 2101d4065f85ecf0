package listen

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort is for net.ListenConfig.
func reusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failed)
}

// acceptWaiting returns the connections that are in the queue of a listener, and does not wait for others.
func acceptWaiting(l net.Listener) (all []net.Conn) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // it fails only for a listener that is closed
		for {
			accepted, _, err := unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			if err != nil { // there is none, most likely
				return
			}
			file := os.NewFile(uintptr(accepted), "")
			conn, err := net.FileConn(file)
			_ = file.Close() // conn has a descriptor of its own
			if err == nil {
				all = append(all, conn)
			}
		}
	})
	return all
}
