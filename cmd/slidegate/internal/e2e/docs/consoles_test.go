package docs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestConsoles runs the console blocks of each page from top to bottom, and checks that each command prints what the page shows
// below it. They run in a folder that contains the files that the page shows, which are blocks that begin with a comment with a file
// name, and the folders docs and deploy of a checkout. Variables that they export are set for the commands after them.
// The service, the proxy and Go programs that listen run until the page ends, or starts another one. Their ports, and port 3000 of the
// application behind the proxy, are replaced by free ones, and addresses of other servers by those of real ones.
func TestConsoles(t *testing.T) {
	t.Parallel()
	problems, count := checkConsoles(t, readPages(t))
	report(t, problems)
	t.Logf("ran %d commands", count)
}

func checkConsoles(t *testing.T, pages []*page) (problems []problem, count int) {
	t.Helper()
	var mu sync.Mutex
	t.Run("run", func(t *testing.T) {
		for _, p := range pages {
			steps := stepsOfPage(p)
			if len(steps) == 0 || p.path == runbook { // TestRunbook makes the faults that its commands look for
				continue
			}
			count += len(steps)
			t.Run(p.path, func(t *testing.T) {
				t.Parallel()
				found := runConsole(t, p, steps)
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, found...)
			})
		}
	})
	return problems, count
}

func stepsOfPage(p *page) (steps []step) {
	for _, b := range p.blocks {
		if b.language == "console" {
			steps = append(steps, stepsOf(b)...)
		}
	}
	return steps
}

// runConsole runs the steps of a page, up to three times before their problems count, as attempt does.
func runConsole(t *testing.T, p *page, steps []step) (problems []problem) {
	t.Helper()
	for _, program := range []string{"curl", "jq", "python3", "node"} {
		if slices.ContainsFunc(steps, func(s step) bool { return strings.Contains(s.command, program+" ") }) {
			installed(t, program)
		}
	}
	programs, broken := buildNamed(t, p)
	for n := range 3 {
		c := newConsole(t, p, programs)
		problems = nil
		for _, s := range steps {
			if wrong := c.run(t, s); wrong != "" {
				problems = append(problems, p.problemf(s.line, "%s\n%s", s.command, wrong))
			}
		}
		c.stop()
		if problems == nil {
			break
		}
		t.Logf("attempt %d: %v", n+1, problems)
	}
	return append(broken, problems...)
}

// A step is a command and the part of its output that the page shows, or "".
type step struct {
	line    int
	command string
	shown   string
}

func stepsOf(b block) (steps []step) {
	for _, command := range commandLines(b) {
		steps = append(steps, step{line: command.line, command: command.code})
	}
	lines := strings.Split(b.code, "\n")
	for i := range steps {
		end := len(lines)
		if i+1 < len(steps) {
			end = steps[i+1].line - b.line
		}
		begin := steps[i].line - b.line + 1 + strings.Count(steps[i].command, "\n")
		steps[i].shown = strings.Trim(strings.Join(lines[begin:end], "\n"), "\n")
	}
	return steps
}

// A console is where the commands of a page are run.
type console struct {
	dir     string
	ports   map[string]string // from ports on the page to free ports
	env     []string          // addresses of the servers that Go programs of the page use
	listen  []string          // the Go programs of the page that listen
	server  *exec.Cmd         // nil if none runs
	output  *testkit.Output   // output of the server
	stopped chan struct{}     // closed when the server has ended
	exports []string          // commands that set variables
	machine *machine          // nil unless the page calls systemctl
}

// clientScript is a script that points client commands at the service that the test has started.
const clientScript = `#!/bin/sh
case "$1 $2" in
"allow "*|"peek "*|"charge "*) server=%[2]s;;
"explain "*|"reset "*|"block "*|"unblock "*|"override "*|"rulings "*|"reload "*|"config running") server=%[3]s;;
*) exec %[1]s "$@";;
esac
case " $* " in *" --server"*|*" --store"*|*" --limit"*|*" --config"*) exec %[1]s "$@";; esac
exec %[1]s "$@" --server http://127.0.0.1:$server
`

func newConsole(t *testing.T, p *page, programs []named) *console {
	t.Helper()
	c := &console{dir: t.TempDir(), ports: map[string]string{}}
	for _, port := range []string{"8080", "8081", "8082", "8083", "6380"} {
		_, c.ports[port], _ = net.SplitHostPort(testkit.FreeAddress(t))
	}
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))
	t.Cleanup(application.Close)
	_, c.ports["3000"], _ = net.SplitHostPort(application.Listener.Addr().String())
	script := fmt.Sprintf(clientScript, slidegate, c.ports["8080"], c.ports["8082"])
	testkit.NoError(t, os.Mkdir(filepath.Join(c.dir, "bin"), 0o700))
	testkit.NoError(t, os.WriteFile(filepath.Join(c.dir, "bin", "slidegate"), []byte(script), 0o700))
	testkit.NoError(t, os.WriteFile(filepath.Join(c.dir, "bin", ".curlrc"), []byte("silent\nshow-error\n"), 0o600)) // as on a terminal
	for _, folder := range []string{"docs", "deploy"} {
		at, err := filepath.Abs(filepath.Join(root, folder))
		testkit.NoError(t, err)
		testkit.NoError(t, os.Symlink(at, filepath.Join(c.dir, folder)))
	}
	if slices.ContainsFunc(p.blocks, func(b block) bool { return b.language == "console" && strings.Contains(b.code, "systemctl ") }) {
		c.machine = newMachine(t, c)
	}
	for _, b := range p.blocks {
		if name := fileName.FindStringSubmatch(b.code); name != nil {
			text := b.code
			// Go programs get addresses from their environment, and the service from its own.
			if c.machine != nil || b.language == "python" || b.language == "js" {
				text = c.replaced(text, false)
			}
			c.write(t, name[1], text)
		}
	}
	c.addPrograms(t, programs)
	c.startSecureRedis(t)
	t.Cleanup(c.stop)
	return c
}

// fileName matches the first line of a block if it is a comment with a file name.
var fileName = regexp.MustCompile(`\A(?:#|//) (/etc/[\w./@-]+|[\w-]+\.[a-z]+)\n`)

// file returns where a file of the page is: those in /etc are in a folder of the console.
func (c *console) file(name string) string { return filepath.Join(c.dir, filepath.FromSlash(name)) }

// write writes a file of the page.
func (c *console) write(t *testing.T, name, text string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(c.file(name), []byte(text), 0o600))
}

// inEtc matches the paths of a command or a file that are in /etc.
var inEtc = regexp.MustCompile(`(^|[\s"'|:])/etc/`)

// replaced replaces the ports in text by free ones, and /etc by a folder, or back.
func (c *console) replaced(text string, back bool) string {
	if back {
		text = strings.ReplaceAll(text, c.dir+"/etc/", "/etc/")
	} else if c.machine != nil {
		text = inEtc.ReplaceAllString(text, "${1}"+c.dir+"/etc/")
	}
	for shown, free := range c.ports {
		if back {
			shown, free = free, shown
		}
		text = regexp.MustCompile(`:`+shown+`\b`).ReplaceAllString(text, ":"+free)
	}
	return text
}

func (c *console) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.Join(c.exports, "")+c.replaced(line, false))
	cmd.Dir, cmd.WaitDelay = c.dir, time.Second
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SLIDEGATE_") })
	bin := filepath.Join(c.dir, "bin")
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "CURL_HOME="+bin)
	cmd.Env = append(cmd.Env, c.env...)
	for name, port := range map[string]string{"HTTP": "8080", "GRPC": "8081", "RESP": "6380", "ADMIN": "8082"} {
		cmd.Env = append(cmd.Env, "SLIDEGATE_"+name+"=127.0.0.1:"+c.ports[port])
	}
	return cmd
}

var runsOn = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*slidegate (serve|proxy)\b`)

// run runs a step and returns the problem with it, or "".
func (c *console) run(t *testing.T, s step) string {
	t.Helper()
	program := goRun.FindStringSubmatch(s.command)
	if runsOn.MatchString(s.command) || program != nil && slices.Contains(c.listen, program[1]) {
		return c.start(t, s)
	}
	got, err := c.print(t, s.command)
	if strings.HasPrefix(s.command, "promtool query ") {
		testkit.Eventually(t, "Prometheus has scraped what the page shows", func() bool {
			got, err = c.print(t, s.command)
			return matches(s.shown, got)
		})
	}
	if s.shown == "" && err != nil {
		return fmt.Sprintf("it fails: %v\n%s", err, got)
	}
	if s.shown != "" && !matches(s.shown, got) {
		return fmt.Sprintf("it prints\n%s\nwant\n%s", got, s.shown)
	}
	if strings.HasPrefix(s.command, "export ") {
		c.exports = append(c.exports, c.replaced(s.command, false)+"\n")
	}
	return ""
}

// print runs a command and returns what it prints.
func (c *console) print(t *testing.T, line string) (printed string, err error) {
	t.Helper()
	cmd := c.command(t.Context(), line)
	var out []byte
	if c.machine == nil {
		out, err = cmd.CombinedOutput()
	} else {
		out, err = c.machine.combinedOutput(t, cmd)
	}
	return c.replaced(string(out), true), err
}

// start starts a server, and stops the one before.
func (c *console) start(t *testing.T, s step) string {
	t.Helper()
	c.stop()
	c.output, c.stopped = &testkit.Output{}, make(chan struct{})
	c.server = c.command(context.Background(), "exec "+strings.TrimSuffix(strings.TrimSpace(s.command), "&"))
	c.server.Stdout, c.server.Stderr = c.output, c.output
	testkit.NoError(t, c.server.Start())
	go func(server *exec.Cmd, stopped chan struct{}) {
		defer close(stopped)
		_ = server.Wait() // it is killed
	}(c.server, c.stopped)
	ended := false
	testkit.Eventually(t, s.command+" listens", func() bool {
		connection, err := net.Dial("tcp", "127.0.0.1:"+c.ports["8080"])
		if err == nil {
			_ = connection.Close()
		}
		select {
		case <-c.stopped:
			ended = true
		default:
		}
		return err == nil || ended
	})
	switch got := c.replaced(c.output.String(), true); {
	case ended:
		return "it ends, and says\n" + got
	case s.shown != "" && !matches(s.shown+"\n...", got):
		return fmt.Sprintf("it prints\n%s\nwant\n%s", got, s.shown)
	}
	return ""
}

// stop stops the server, if one runs.
func (c *console) stop() {
	if c.server == nil {
		return
	}
	if err := c.server.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err)
	}
	<-c.stopped
	c.server = nil
}
