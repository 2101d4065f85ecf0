// Package systemd is the part of systemd's protocols that a service needs: the sockets that systemd opened for it, and the messages by
// which systemd learns that the service is ready, reloads, stops and lives. Without systemd all of it does nothing.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// firstSocket is the first file descriptor that systemd passes.
const firstSocket = 3

// Listeners returns the sockets that systemd opened for this process, by their FileDescriptorName=. A single socket that does not have one
// of the known names gets the first of them: without FileDescriptorName=, it is called like its unit. It may be called once: it unsets the
// variables, so that no child takes the sockets for its own. It is nil if there are none.
func Listeners(known ...string) (map[string]net.Listener, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // they are another's
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS: %q is not a number of sockets", count)
	}
	if n == 0 {
		return nil, nil
	}
	return listeners(n, names, known)
}

func listeners(n int, names string, known []string) (map[string]net.Listener, error) {
	called := strings.Split(names, ":")
	all := make(map[string]net.Listener, n)
	var errs []error
	for i := range n {
		fd := firstSocket + i
		syscall.CloseOnExec(fd)
		name := ""
		if i < len(called) {
			name = called[i]
		}
		if !isOneOf(name, known) && n == 1 {
			name = known[0]
		}
		listener, err := listener(fd, name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("socket %d from systemd, %q: %w; write ListenStream= in its unit", i+1, name, err))
		case !isOneOf(name, known):
			errs = append(errs, fmt.Errorf("socket %d from systemd is called %q; write FileDescriptorName= in its unit, one of %s", i+1, name, strings.Join(known, ", ")))
		case all[name] != nil:
			errs = append(errs, fmt.Errorf("systemd passes two sockets called %q; write one ListenStream= for each FileDescriptorName=", name))
		default:
			all[name] = listener
		}
	}
	return all, errors.Join(errs...)
}

// listener returns the socket of a file descriptor, which it closes: the listener has one of its own.
func listener(fd int, name string) (net.Listener, error) {
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return net.FileListener(file)
}

func isOneOf(name string, known []string) bool {
	for _, one := range known {
		if name == one {
			return true
		}
	}
	return false
}

// What Notify says.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Status is a line for a person, which systemctl status shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notify sends lines to the socket that NOTIFY_SOCKET names. It does nothing if there is none.
func Notify(lines ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // net reads @ as an abstract name too
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// WatchdogEvery returns how often Alive should be sent, which is twice as often as systemd wants to hear it; 0 if it does not.
func WatchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	return time.Duration(micros) * time.Microsecond / 2
}
