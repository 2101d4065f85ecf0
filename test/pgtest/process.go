package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/slidegate/slidegate/test/kit"
)

const patience = 30 * time.Second // how long anything may take

// process is a program that was started and may be ended, with its children.
type process struct {
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has ended
	pidFile string
}

// launch starts a program, with additional environment variables if given. Its output goes to the file named log in its
// directory, and its id to the one named pid, by which it is ended if the test can no longer do so.
func launch(folder string, env []string, program string, args ...string) (*process, error) {
	cmd, err := command(folder, program, args...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, env...)
	log, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{}), pidFile: filepath.Join(folder, "pid")}
	go func() {
		cmd.Wait() //nolint:errcheck // it is killed in the end, and how it ended before that is in its log
		close(p.ended)
	}()
	if err := os.WriteFile(p.pidFile, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// kill ends the program and all its children together. The program is stopped first, so that it starts no more; its
// children are in their own sessions and would otherwise finish their work. All have ended when kill returns.
func (p *process) kill() {
	if p == nil || p.over() {
		return
	}
	p.cmd.Process.Signal(syscall.SIGSTOP) //nolint:errcheck // it may have ended just now
	orphans := children(p.cmd.Process.Pid)
	for _, pid := range orphans {
		syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // as above
	}
	p.cmd.Process.Kill() //nolint:errcheck // as above
	<-p.ended
	os.Remove(p.pidFile)
	for _, pid := range orphans {
		kit.Retry(errEnded, func() error { //nolint:errcheck // if the server is started again, the remaining process is noticed
			if running(pid) {
				return errStillThere
			}
			return nil
		})
	}
}

// quit sends the program a signal to end, and kills it if it does not.
func (p *process) quit(signal os.Signal) error {
	if p == nil || p.over() {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	select {
	case <-p.ended:
		os.Remove(p.pidFile)
		return nil
	case <-time.After(patience):
		p.kill()
		return errStillThere
	}
}

var (
	errEnded      = errors.New("the program ended")
	errStillThere = errors.New("a process does not end")
)

// logOf returns the end of a program's output.
func logOf(folder string) string {
	text, err := os.ReadFile(filepath.Join(folder, "log"))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text[max(0, len(text)-2_000):])
}
