// Package systemd implements the parts of systemd's protocols that a service needs: the sockets that systemd opened for it, and the
// messages that report to systemd that the service is ready, reloading, stopping or alive. Without systemd, it does nothing.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// firstSocket is the first file descriptor that systemd passes.
const firstSocket = 3

// Listeners returns the sockets that systemd opened for this process, by their FileDescriptorName=; nil if there are none. A single
// socket whose name is not known gets the first known name, since a socket without FileDescriptorName= has the name of its unit.
// Call it only once: it unsets the variables, so that no child process mistakes the sockets for its own.
func Listeners(known ...string) (map[string]net.Listener, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // they belong to another process
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS: invalid number of sockets %q", count)
	}
	if n == 0 {
		return nil, nil
	}
	return listeners(n, names, known)
}

func listeners(n int, names string, known []string) (map[string]net.Listener, error) {
	split := strings.Split(names, ":")
	all := make(map[string]net.Listener, n)
	var errs []error
	for i := range n {
		fd := firstSocket + i
		name := ""
		if i < len(split) {
			name = split[i]
		}
		if !isOneOf(name, known) && n == 1 {
			name = known[0]
		}
		listener, err := listener(fd, name)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("socket %d from systemd, %q: %w; use ListenStream= in its unit", i+1, name, err))
		case !isOneOf(name, known):
			errs = append(errs, fmt.Errorf("socket %d from systemd has the unknown name %q; set FileDescriptorName= in its unit to one of %s", i+1, name, strings.Join(known, ", ")))
		case all[name] != nil:
			errs = append(errs, fmt.Errorf("systemd passed two sockets named %q; use one ListenStream= per FileDescriptorName=", name))
		default:
			all[name] = listener
		}
	}
	return all, errors.Join(errs...)
}

// listener returns the socket of a file descriptor, and closes the descriptor: the listener has its own.
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

// Messages for Notify.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Alive    = "WATCHDOG=1"
)

// Status returns a message that systemctl status shows to people.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notify sends lines to the socket named by NOTIFY_SOCKET. It does nothing if the variable is not set.
func Notify(lines ...string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // net accepts @ for abstract names too
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}

// WatchdogEvery returns the interval at which Alive should be sent, which is half of what systemd allows; 0 if systemd does not
// expect it.
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
