package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// program is `slidegate serve` in a process of its own, built from this repository: what is measured is what people run.
type program struct {
	http, grpc, resp string // where its doors are
	process          *exec.Cmd
	copied           chan struct{} // closed when all that it printed was read
}

// quotaFlag is a quota that no load reaches.
var quotaFlag = fmt.Sprintf("--limit=%d/%v", ampleQuota, quotaWindow)

// startProgram runs the service with a quota that no load reaches, more flags, if there are any, and settings of the environment.
func (r *run) startProgram(settings []string, flags ...string) (*program, error) {
	return r.startService(settings, append([]string{quotaFlag}, flags...)...)
}

// startService runs the service with flags that say what its limits are.
func (r *run) startService(settings []string, flags ...string) (*program, error) {
	path, err := r.buildProgram()
	if err != nil {
		return nil, err
	}
	p := &program{copied: make(chan struct{})}
	p.process = exec.Command(path, append([]string{
		"serve", "--http=127.0.0.1:0", "--grpc=127.0.0.1:0", "--resp=127.0.0.1:0", "--admin=off", "--log-level=warn",
	}, flags...)...)
	p.process.Env = append(os.Environ(), settings...)
	p.process.SysProcAttr = endsWithParent()
	printed, err := p.process.StderrPipe()
	if err == nil {
		err = p.process.Start()
	}
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(20*time.Second, func() { _ = p.process.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(printed)
	said := p.readDoors(lines)
	go func() { // until it ends, or it would wait for somebody to read
		defer close(p.copied)
		for lines.Scan() {
			fmt.Fprintln(r.progress, lines.Text())
		}
	}()
	if p.http == "" || p.grpc == "" || p.resp == "" {
		p.stop()
		return nil, fmt.Errorf("slidegate serve does not say where it listens: %s", said)
	}
	return p, nil
}

var doorLine = regexp.MustCompile(`^  (http|grpc|resp) +(?:http://)?(\S+:\d+)`)

// readDoors reads where the doors are, which the service says when they are open, and returns what it said.
func (p *program) readDoors(lines *bufio.Scanner) (said string) {
	for (p.http == "" || p.grpc == "" || p.resp == "") && lines.Scan() {
		said += lines.Text() + "\n"
		if found := doorLine.FindStringSubmatch(lines.Text()); found != nil {
			*map[string]*string{"http": &p.http, "grpc": &p.grpc, "resp": &p.resp}[found[1]] = found[2]
		}
	}
	return said
}

// programEnv names a program of Slidegate, where it is there already.
const programEnv = "SLIDEGATE"

// buildProgram builds the service once a run.
func (r *run) buildProgram() (string, error) {
	if path := os.Getenv(programEnv); path != "" {
		return path, nil
	}
	path := filepath.Join(r.folder, "slidegate")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	r.say("building slidegate")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/slidegate/slidegate").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w; bench runs in its own folder", err)
	}
	build := exec.Command("go", "build", "-o", path, "./cmd/slidegate")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
}

// pid is the number of the process.
func (p *program) pid() string { return strconv.Itoa(p.process.Process.Pid) }

// stop ends the service.
func (p *program) stop() {
	endProcess(p.process)
	<-p.copied
}

// endProcess ends a process that was started, at the latest after some seconds.
func endProcess(process *exec.Cmd) {
	_ = process.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(3*time.Second, func() { _ = process.Process.Kill() })
	_ = process.Wait() // how it ended does not matter: all figures have been read
	late.Stop()
}
