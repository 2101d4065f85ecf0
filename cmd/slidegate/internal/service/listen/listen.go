// Package listen opens the addresses that flags name: host:port, or unix:/path for a Unix socket.
package listen

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
)

// unixPrefix is the prefix of addresses of Unix sockets.
const unixPrefix = "unix:"

// socketMode lets only the owner of a socket and its group connect, since connections to a Unix socket have no address that would
// identify clients.
const socketMode fs.FileMode = 0o660

// IsUnix reports whether an address is a Unix socket, which other machines cannot reach.
func IsUnix(address string) bool { return strings.HasPrefix(address, unixPrefix) }

// Path returns the path of a Unix socket; empty if the address is not one.
func Path(address string) string {
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if !isUnix {
		return ""
	}
	return strings.TrimPrefix(path, "//") // as in unix:///run/x
}

// Text returns the address of a listener in the form that Options.Open accepts.
func Text(addr net.Addr) string {
	if addr.Network() == "unix" {
		return unixPrefix + addr.String()
	}
	return addr.String()
}

// Check returns an error that says what to write if an address is invalid.
func Check(address string) error {
	if IsUnix(address) {
		if Path(address) == "" {
			return fmt.Errorf("%q has no path; write unix:/run/slidegate.sock, for example", address)
		}
		return nil
	}
	if address != "" && strings.Trim(address, "0123456789") == "" {
		return fmt.Errorf("%q is a port without a host; write 127.0.0.1:%s for this machine only, or :%s for all its addresses",
			address, address, address)
	}
	if strings.HasPrefix(address, "/") || strings.HasPrefix(address, ".") {
		return fmt.Errorf("%q is a path; write unix:%s for a Unix socket", address, address)
	}
	host, port, err := net.SplitHostPort(address)
	switch {
	case strings.Contains(address, "://"):
		return fmt.Errorf("%q is a URL; write host:port, such as 127.0.0.1:8080, or unix:/path", address)
	case err != nil && strings.Count(address, ":") > 1:
		return fmt.Errorf("%q is not host:port; write an IPv6 address in brackets, such as [::1]:8080", address)
	case err != nil:
		return fmt.Errorf("%q: missing port; write %s:8080, for example, or unix:/path", address, strings.TrimSuffix(address, ":"))
	case port == "":
		return fmt.Errorf("%q: missing port after the colon; write %s:8080, for example, or 0 for any free port", address, host)
	}
	return nil
}

// listenUnix opens a Unix socket. It replaces a socket that a process left behind, but not one that is in use.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	listener, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && isStale(path) {
		if err = os.Remove(path); err == nil {
			listener, err = net.Listen("unix", path)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, cmp.Or(mode, socketMode)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// isClosed reports whether an error means that a listener was closed.
func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// isStale reports whether path is a socket that no process listens on.
func isStale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
