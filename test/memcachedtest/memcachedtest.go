// Package memcachedtest starts real memcached servers for tests. Every server belongs to its test, on a free port of the loopback
// interface, and ends with the test. Where memcached is not installed, tests are skipped unless TEST_REQUIRE names it.
package memcachedtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/kit"
)

// Server is one server. It is not safe for concurrent use, except for Addr. The zero value is not usable; call Start.
type Server struct {
	t       testing.TB
	program string
	args    []string // after those of every server
	env     []string // in addition to that of the test
	port    int

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// Start starts a server with additional arguments of memcached, such as "-M".
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return StartWithEnv(t, nil, args...)
}

// StartWithEnv is Start with more variables in the server's environment, each as "NAME=value".
func StartWithEnv(t testing.TB, env []string, args ...string) *Server {
	t.Helper()
	program, err := exec.LookPath("memcached")
	if err != nil {
		kit.SkipWithoutProgram(t, "memcached")
	}
	s := &Server{t: t, program: program, args: args, env: env}
	t.Cleanup(s.end)
	for range 5 { // another process may take the port first
		if s.port, err = testkit.FreePort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s
		}
		s.end()
	}
	t.Fatalf("memcachedtest: the server does not start: %v", err)
	return nil
}

// start starts the process and waits until it is ready.
func (s *Server) start() error {
	args := []string{"-U", "0", "-l", "127.0.0.1", "-p", strconv.Itoa(s.port)}
	cmd := exec.Command(s.program, append(args, s.args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stderr = os.Stderr
	kit.KillWithParent(cmd)
	who, err := kit.Unprivileged("nobody")
	if err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = who
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd, ended
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed in the end
		close(ended)
	}()
	return kit.Retry(errEnded, s.ready)
}

var errEnded = errors.New("the server ended")

// ready returns nil if our process answers, and not another one on the same port.
func (s *Server) ready() error {
	select {
	case <-s.ended:
		return errEnded
	default:
	}
	stats, err := s.stats()
	if err == nil && stats["pid"] != strconv.Itoa(s.process.Process.Pid) {
		err = errors.New("another server answers on the port")
	}
	return err
}

// Stats returns the server's statistics, or those of a part such as "slabs".
func (s *Server) Stats(of ...string) map[string]string {
	s.t.Helper()
	stats, err := s.stats(of...)
	if err != nil {
		s.t.Fatalf("memcachedtest: %v", err)
	}
	return stats
}

func (s *Server) stats(of ...string) (map[string]string, error) {
	all := map[string]string{}
	err := s.send(strings.Join(append([]string{"stats"}, of...), " "), func(line string) (more bool) {
		if fields := strings.SplitN(line, " ", 3); len(fields) == 3 {
			all[fields[1]] = fields[2]
		}
		return line != "END"
	})
	return all, err
}

// send sends a command over a new connection, and calls line with each line of the reply until it returns false.
func (s *Server) send(command string, line func(text string) (more bool)) error {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() && line(lines.Text()) {
	}
	return lines.Err()
}

// TimeToLive returns for how long the server will still keep an item, in whole seconds. The item must exist and must expire.
func (s *Server) TimeToLive(name string) time.Duration {
	s.t.Helper()
	var answer string
	err := s.send("mg "+name+" t", func(line string) bool { answer = line; return false })
	seconds, isNumber := strings.CutPrefix(answer, "HD t")
	n, notNumber := strconv.Atoi(seconds)
	if err != nil || !isNumber || notNumber != nil || n < 0 {
		s.t.Fatalf("memcachedtest: the time to live of %s: got %q and the error %v", name, answer, err)
	}
	return time.Duration(n) * time.Second
}

// Count returns one number of Stats.
func (s *Server) Count(name string, of ...string) int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(s.Stats(of...)[name], 10, 64)
	if err != nil {
		s.t.Fatalf("memcachedtest: the server's %s is not a number: %v", name, err)
	}
	return n
}

// Addr returns the address of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Client returns a client of the server, which is closed with the test.
func (s *Server) Client(t testing.TB) *memcache.Client { return Client(t, s.Addr()) }

// Client returns a client of some servers, which is closed with the test. Its timeout is long, since the machine may be busy.
func Client(t testing.TB, addrs ...string) *memcache.Client {
	client := memcache.New(addrs...)
	client.MaxIdleConns, client.Timeout = 64, 10*time.Second
	t.Cleanup(func() { client.Close() })
	return client
}

// Kill ends the server immediately. It has ended, and everything that it kept is lost, when Kill returns.
func (s *Server) Kill() { s.end() }

// Restart starts the server again at the same address, after Kill or while it runs. It is ready, and empty, when Restart
// returns.
func (s *Server) Restart() {
	s.t.Helper()
	s.end()
	if err := s.start(); err != nil {
		s.t.Fatalf("memcachedtest: the server does not start again: %v", err)
	}
}

// Signal sends the server a signal, such as the one that stops it without ending it.
func (s *Server) Signal(signal os.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatalf("memcachedtest: %v", err)
	}
}

// end kills the process that we started, if it still runs.
func (s *Server) end() {
	if s.process == nil {
		return
	}
	select {
	case <-s.ended:
	default:
		s.process.Process.Kill() //nolint:errcheck // it may have ended just now
		<-s.ended
	}
}
