package listen

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort is a net.ListenConfig.Control function.
func reusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, failed)
}

// acceptQueued returns the connections in the queue of a listener, without waiting for others.
func acceptQueued(l net.Listener) (all []net.Conn) {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { // fails only for a closed listener
		for {
			accepted, _, err := unix.Accept4(int(fd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			if err != nil { // most likely, the queue is empty
				return
			}
			file := os.NewFile(uintptr(accepted), "")
			conn, err := net.FileConn(file)
			_ = file.Close() // conn has its own descriptor
			if err == nil {
				all = append(all, conn)
			}
		}
	})
	return all
}
