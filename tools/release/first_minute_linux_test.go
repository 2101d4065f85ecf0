package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownNetwork gives the goroutine of a test, and the programs that it starts, a network of their own: releases listen on fixed ports. The
// network ends with the goroutine, whose thread is never unlocked.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("a network of its own: %v; run the test as root", err)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	noError(t, err)
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	noError(t, err)
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	noError(t, unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback))
}

// jailed returns a command that sees only the files below root, and runs as a user who owns none of them.
func jailed(root string, user uint32, env []string, words ...string) *exec.Cmd {
	command := exec.Command(words[0], words[1:]...)
	command.Dir, command.Env = "/", env
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return command
}

// running is a program that runs.
type running struct {
	command *exec.Cmd
	output  bytes.Buffer // to be read after the end
	ended   bool
}

// start starts a program, and ends it with the test.
func start(t *testing.T, command *exec.Cmd) *running {
	t.Helper()
	r := &running{command: command}
	command.Stdout, command.Stderr = &r.output, &r.output
	noError(t, command.Start())
	t.Cleanup(func() {
		r.end()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(command.Args, " "), r.output.String())
		}
	})
	return r
}

// end ends the program.
func (r *running) end() {
	if !r.ended {
		r.ended = true
		_ = r.command.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = r.command.Wait()
	}
}

// firstMinute sends six requests of a fifth of the limit each: five are admitted, and the sixth is told when to come back.
func firstMinute(t *testing.T, cost int) {
	t.Helper()
	for i := range 6 {
		response := allow(t, cost)
		retry, err := strconv.Atoi(response.Header.Get("Retry-After"))
		switch {
		case i < 5 && response.StatusCode != http.StatusOK:
			t.Fatalf("request %d: got %s, want 200", i+1, response.Status)
		case i == 5 && (response.StatusCode != http.StatusTooManyRequests || err != nil || retry < 1 || retry > 60):
			t.Fatalf("request %d: got %s, Retry-After %q, want 429 and 1 to 60 seconds", i+1, response.Status, response.Header.Get("Retry-After"))
		}
	}
}

// allow sends a request as soon as the service listens. It dials in the goroutine of the test, whose network the service is in.
func allow(t *testing.T, cost int) *http.Response {
	t.Helper()
	var conn net.Conn
	var err error
	late := time.After(time.Minute)
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if conn, err = net.Dial("tcp", "127.0.0.1:8080"); err == nil {
			break
		}
		select {
		case <-late:
			t.Fatal(err)
		case <-tick.C:
		}
	}
	defer conn.Close()
	request, err := http.NewRequest("POST", "http://127.0.0.1:8080/v1/allow", strings.NewReader(fmt.Sprintf(`{"key":"me","cost":%d}`, cost)))
	noError(t, err)
	request.Header.Set("Content-Type", "application/json")
	noError(t, request.Write(conn))
	response, err := http.ReadResponse(bufio.NewReader(conn), request)
	noError(t, err)
	noError(t, response.Body.Close())
	return response
}

// exitStatus returns the exit status of a command, or -1.
func exitStatus(err error) int {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode()
	}
	return -1
}
