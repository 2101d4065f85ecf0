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

// program is `slidegate serve` in a separate process, built from this repository: the real program is measured.
type program struct {
	http, grpc, resp string // addresses of its listeners
	process          *exec.Cmd
	copied           chan struct{} // closed when all of its output has been read
}

// quotaFlag is a quota that no load reaches.
var quotaFlag = fmt.Sprintf("--limit=%d/%v", ampleQuota, quotaWindow)

// startProgram starts the service with a quota that no load reaches, additional flags, and environment settings.
func (r *run) startProgram(settings []string, flags ...string) (*program, error) {
	return r.startService(settings, append([]string{quotaFlag}, flags...)...)
}

// startService starts the service with flags that set its limits.
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
	output := p.readListeners(lines)
	go func() { // until it ends, or it would block on a full pipe
		defer close(p.copied)
		for lines.Scan() {
			fmt.Fprintln(r.progress, lines.Text())
		}
	}()
	if p.http == "" || p.grpc == "" || p.resp == "" {
		p.stop()
		return nil, fmt.Errorf("slidegate serve did not print its addresses: %s", output)
	}
	return p, nil
}

var listenerLine = regexp.MustCompile(`^  (http|grpc|resp) +(?:http://)?(\S+:\d+)`)

// readListeners reads the addresses of the listeners, which the service prints when they are open, and returns the output.
func (p *program) readListeners(lines *bufio.Scanner) (output string) {
	for (p.http == "" || p.grpc == "" || p.resp == "") && lines.Scan() {
		output += lines.Text() + "\n"
		if found := listenerLine.FindStringSubmatch(lines.Text()); found != nil {
			*map[string]*string{"http": &p.http, "grpc": &p.grpc, "resp": &p.resp}[found[1]] = found[2]
		}
	}
	return output
}

// programEnv names an existing slidegate program.
const programEnv = "SLIDEGATE"

// buildProgram builds the service once per run.
func (r *run) buildProgram() (string, error) {
	if path := os.Getenv(programEnv); path != "" {
		return path, nil
	}
	path := filepath.Join(r.folder, "slidegate")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	r.logf("building slidegate")
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

// endProcess stops a process, and kills it after some seconds.
func endProcess(process *exec.Cmd) {
	_ = process.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(3*time.Second, func() { _ = process.Process.Kill() })
	_ = process.Wait() // the result does not matter: all figures have been read
	late.Stop()
}
