package docs

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// languages holds the languages that blocks may be written in, with the functions that check them. nil means that another test
// checks the language, or none: see the comments.
var languages = map[string]func(t *testing.T, p *page, b block) []problem{
	"go":      nil, // TestGoSamples, TestPrograms, TestFragments
	"sh":      nil, // TestCommands
	"console": nil, // TestCommands, TestConsoles
	"text":    nil, // TestPrograms, if it is the output of a program

	"yaml":      checkYAML,
	"json":      checkJSON,
	"nginx":     checkNginx,
	"caddyfile": checkCaddy,

	"http":    nil, // TestPrograms, if it is the response of a server; package jsonapi compares those in docs/api.md
	"mermaid": nil, // diagrams, not checked
	"sql":     nil, // TestSQL
	"python":  nil, // TestConsoles, if it has a file name
	"js":      nil, // likewise
	"php":     nil,
	"java":    nil,
	"ruby":    nil,
}

// TestFiles checks that every fenced block has a language, and is accepted by the program that reads it: policies and Envoy's rules
// by config check, settings of nginx and Caddy by nginx and Caddy.
func TestFiles(t *testing.T) {
	problems, counts := checkFiles(t, readPages(t))
	report(t, problems)
	t.Logf("blocks: %v", counts)
}

func checkFiles(t *testing.T, pages []*page) (problems []problem, counts map[string]int) {
	t.Helper()
	counts = map[string]int{}
	for _, p := range pages {
		for _, b := range p.blocks {
			if b.indented {
				counts["indented"]++
				continue
			}
			counts[b.language]++
			check, known := languages[b.language]
			switch {
			case b.language == "":
				problems = append(problems, p.problemf(b.line-1, "the block has no language: write one after the ```, such as text"))
			case !known:
				problems = append(problems, p.problemf(b.line-1, "no check for blocks in %s: add one to languages in files_test.go", b.language))
			case check != nil:
				t.Run(fmt.Sprintf("%s:%d", p.path, b.line), func(t *testing.T) { // skipped without its program
					problems = append(problems, check(t, p, b)...)
				})
			}
		}
	}
	return problems, counts
}

var (
	isOurs   = regexp.MustCompile(`(?m)^(policies|domain):`)
	position = regexp.MustCompile(`(?m)^-?[^:\n]*:(\d+):\d+: (.*)$`)
)

// checkYAML runs the program's config check on files of policies and of Envoy's rules. Of other files only the syntax is checked.
// Fragments of files may repeat a field to show several ways to write it; package config checks the fragments of its own page.
func checkYAML(t *testing.T, p *page, b block) (problems []problem) {
	t.Helper()
	if !isOurs.MatchString(b.code) {
		var value any
		if err := yaml.NewDecoder(strings.NewReader(b.code), yaml.AllowDuplicateMapKey()).Decode(&value); err != nil {
			message, _, _ := strings.Cut(err.Error(), "\n")
			return []problem{p.problemf(b.line, "invalid YAML: %s", message)}
		}
		return nil
	}
	purpose := map[string]string{"docs/replay.md": "replay", "docs/proxy.md": "proxy"}[p.path]
	if purpose == "" {
		purpose = "serve"
	}
	check := exec.Command(slidegate, "config", "check", "--for", purpose, "-")
	check.Stdin = strings.NewReader(b.code)
	out, err := check.CombinedOutput()
	if err == nil {
		return nil
	}
	for _, match := range position.FindAllStringSubmatch(string(out), -1) {
		line, _ := strconv.Atoi(match[1])
		problems = append(problems, p.problemf(b.line+line-1, "%s", match[2]))
	}
	if problems == nil {
		problems = []problem{p.problemf(b.line, "%s", strings.TrimSpace(string(out)))}
	}
	return problems
}

func checkJSON(_ *testing.T, p *page, b block) []problem {
	var value any
	if err := json.Unmarshal([]byte(b.code), &value); err != nil {
		return []problem{p.problemf(b.line, "invalid JSON: %v", err)}
	}
	return nil
}

// checkNginx runs nginx's own check on settings, either directly in its http block or within a location. Ports and certificates are
// replaced by ones that the test may use.
func checkNginx(t *testing.T, p *page, b block) []problem {
	t.Helper()
	nginx, dir := installed(t, "nginx"), t.TempDir()
	certificate := filepath.Join(dir, "ca.pem")
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	testkit.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	code := regexp.MustCompile(`/[\w/.-]+\.pem`).ReplaceAllString(b.code, certificate)
	code = regexp.MustCompile(`listen +\d+`).ReplaceAllString(code, "listen unix:"+filepath.Join(dir, "socket"))
	var message string
	for _, context := range []string{"CODE", "server { location / { CODE } }"} {
		settings := "pid " + filepath.Join(dir, "pid") + "; events {} http { access_log off;\n" + strings.ReplaceAll(context, "CODE", "\n"+code) + "\n}\n"
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(settings), 0o600))
		out, err := exec.Command(nginx, "-t", "-q", "-e", "stderr", "-p", dir, "-c", filepath.Join(dir, "nginx.conf")).CombinedOutput()
		if err == nil {
			return nil
		}
		if message == "" {
			message, _, _ = strings.Cut(string(out), "\n")
		}
	}
	return []problem{p.problemf(b.line, "nginx rejects this: %s", message)}
}

func checkCaddy(t *testing.T, p *page, b block) []problem {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	testkit.NoError(t, os.WriteFile(file, []byte(b.code), 0o600))
	var message bytes.Buffer
	adapt := exec.Command(installed(t, "caddy"), "adapt", "--adapter", "caddyfile", "--config", file)
	adapt.Stderr = &message
	if err := adapt.Run(); err != nil {
		return []problem{p.problemf(b.line, "Caddy rejects this: %s", strings.TrimSpace(message.String()))}
	}
	return nil
}
