package docs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// A named program is a Go program of a page that begins with a comment with its file name. TestConsoles runs it, by go run.
type named struct {
	name, path string
	variables  []string // of the servers that it uses
	listens    bool
}

// goRun matches a command that does nothing but run a named program.
var goRun = regexp.MustCompile(`^go run ([\w-]+\.go)[^&|;]*$`)

// isNamed reports whether a block is a named program.
func isNamed(b block) bool { return b.language == "go" && fileName.MatchString(b.code) }

// buildNamed builds the named programs of a page. It returns a problem for each that does not build or that no command runs.
func buildNamed(t *testing.T, p *page) (programs []named, problems []problem) {
	t.Helper()
	for _, b := range p.blocks {
		if !isNamed(b) {
			continue
		}
		name := fileName.FindStringSubmatch(b.code)[1]
		if !slices.ContainsFunc(stepsOfPage(p), func(s step) bool { return strings.Contains(s.command, "go run "+name) }) {
			problems = append(problems, p.problemf(b.line, "no console block runs %s", name))
			continue
		}
		path, variables, wrong := build(t, b.code)
		if wrong != "" {
			problems = append(problems, p.problemf(b.line, "%s", wrong))
			continue
		}
		programs = append(programs, named{name, path, variables, listens.MatchString(b.code)})
	}
	return programs, problems
}

// goScript is a script in place of the go command, which runs programs that have been built.
const goScript = `#!/bin/sh
program=$2
shift 2
exec %s/"$program".built "$@"
`

// addPrograms makes programs known to go run in the console, and starts the servers that they use.
func (c *console) addPrograms(t *testing.T, programs []named) {
	t.Helper()
	bin := filepath.Join(c.dir, "bin")
	testkit.NoError(t, os.WriteFile(filepath.Join(bin, "go"), fmt.Appendf(nil, goScript, bin), 0o700))
	c.env = []string{listenVariable + "=127.0.0.1:" + c.ports["8080"]}
	var variables []string
	for _, program := range programs {
		testkit.NoError(t, os.Symlink(program.path, filepath.Join(bin, program.name+".built")))
		if program.listens {
			c.listen = append(c.listen, program.name)
		}
		variables = append(variables, program.variables...)
	}
	slices.Sort(variables)
	variables = slices.DeleteFunc(slices.Compact(variables), func(v string) bool { return v == listenVariable })
	c.env = append(c.env, environment(t, variables)[len(os.Environ()):]...)
}

// startSecureRedis starts the Redis of a page that has a file redis.conf, with a certificate for localhost in the files server.pem and
// server.key, and its authority in ca.pem. The port of the page is replaced.
func (c *console) startSecureRedis(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "redis.conf"))
	if err != nil {
		return // the page needs none
	}
	writeCertificate(t, c.dir)
	_, free, _ := net.SplitHostPort(testkit.FreeAddress(t))
	var lines []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
			continue
		case words[0] == "tls-port":
			c.ports[words[1]], words[1] = free, free
		case strings.HasSuffix(words[0], "-file"):
			words[1] = filepath.Join(c.dir, words[1])
		}
		lines = append(lines, strings.Join(words, " "))
	}
	redistest.Server(t, lines...)
}

// writeCertificate writes a certificate for localhost, which is its own authority.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	c := testkit.NewCertificate(t, "localhost", nil, "localhost")
	c.Write(t, filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"))
	testkit.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), c.Cert, 0o600))
}
