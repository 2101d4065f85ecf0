package testkit

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// Process is a program that runs beside a test.
type Process struct {
	*os.Process
	Output Output
	Ended  chan struct{} // closed when it has ended
	Status int           // once it has ended
}

// Run starts a program, without the variables that configure Slidegate but for those that the command sets. It is killed when the test ends.
func Run(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Ended: make(chan struct{})}
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIDEGATE_") || strings.HasPrefix(v, "OTEL_")
	}), cmd.Env...)
	cmd.Stdout, cmd.Stderr = &p.Output, &p.Output
	dieWithUs(cmd)
	NoError(t, cmd.Start())
	p.Process = cmd.Process
	go func() {
		_ = cmd.Wait()
		p.Status = cmd.ProcessState.ExitCode()
		close(p.Ended)
	}()
	t.Cleanup(p.End)
	return p
}

// End kills the program, and waits until it has ended.
func (p *Process) End() {
	_ = p.Kill()
	<-p.Ended
}

// Over reports whether the program has ended.
func (p *Process) Over() bool {
	select {
	case <-p.Ended:
		return true
	default:
		return false
	}
}

// Await waits until condition returns true. It fails the test if the program ends before.
func (p *Process) Await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Eventually(t, what, func() bool {
		over := p.Over() // before the condition, which may be about its last words
		is := condition()
		if over && !is {
			t.Fatalf("the program has ended before %s: %s", what, p.Output.String())
		}
		return is
	})
}

// AwaitOutput waits until the program has printed a line with this text.
func (p *Process) AwaitOutput(t testing.TB, text string) {
	t.Helper()
	p.Await(t, "it prints "+text, func() bool {
		_, after, printed := strings.Cut(p.Output.String(), text)
		return printed && strings.Contains(after, "\n")
	})
}

// Listens reports whether a program listens on an address.
func Listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// RunOnFreePort runs a program that configure prepares, given a folder, for a port, and returns its address once it listens. It tries again
// if another process has taken the port.
func RunOnFreePort(t testing.TB, configure func(dir, port string) *exec.Cmd) (address string) {
	t.Helper()
	for range 5 {
		address = FreeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		p := Run(t, configure(t.TempDir(), port))
		Eventually(t, "the program listens", func() bool { return p.Over() || Listens(address) })
		if !p.Over() {
			return address
		}
		t.Logf("the program has ended: %s", p.Output.String())
	}
	t.Fatal("the program did not start")
	return ""
}
