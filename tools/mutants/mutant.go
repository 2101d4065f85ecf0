package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one planted bug.
type mutant struct {
	name    string   // the name of its file and its own, as in "engine/refusals-charge"
	promise string   // what it breaks, and where that is said
	file    string   // the source file, from the root of the repository
	find    string   // a regular expression that matches once in the file
	with    string   // what replaces the match; $1 is the first group
	tests   []string // arguments of go test, a line each, run in this order until one fails
}

// readAll returns the mutants of the files in folder.
func readAll(folder string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		area := strings.TrimSuffix(filepath.Base(file), ".txt")
		mutants, err := read(area, string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, mutants...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no mutants", folder)
	}
	return all, nil
}

// read parses the mutants of one file: "== name", then lines "field: text", in which a line that begins with a tab continues the
// text of the one before.
func read(area, text string) ([]mutant, error) {
	var all []mutant
	var field *string
	for number, line := range slices.Collect(strings.SplitSeq(text, "\n")) {
		name, value, found := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "== "):
			all = append(all, mutant{name: area + "/" + strings.TrimPrefix(line, "== ")})
			field = nil
		case strings.HasPrefix(line, "#"), line == "":
		case strings.HasPrefix(line, "\t") && field != nil:
			*field += "\n" + line[1:]
		case found && len(all) > 0:
			m := &all[len(all)-1]
			fields := map[string]*string{"promise": &m.promise, "file": &m.file, "find": &m.find, "with": &m.with}
			if name == "test" {
				m.tests = append(m.tests, "")
				field = &m.tests[len(m.tests)-1]
			} else if field = fields[name]; field == nil {
				return nil, fmt.Errorf("line %d: unknown field %q; want promise, file, find, with or test", number+1, name)
			}
			*field += strings.TrimPrefix(value, " ")
		default:
			return nil, fmt.Errorf("line %d: want \"== name\", \"field: text\" or a line that begins with a tab", number+1)
		}
	}
	for i, m := range all {
		if m.promise == "" || m.file == "" || m.find == "" || len(m.tests) == 0 {
			return nil, fmt.Errorf("%s needs a promise, a file, find, and a test", m.name)
		}
		if slices.ContainsFunc(all[:i], func(other mutant) bool { return other.name == m.name }) {
			return nil, fmt.Errorf("%s stands there twice", m.name)
		}
	}
	return all, nil
}

// mutated returns the source file with the bug.
func (m mutant) mutated(root string) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	find, err := regexp.Compile(m.find)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if n := len(find.FindAllIndex(source, -1)); n != 1 {
		return nil, fmt.Errorf("%s: %s matches %d times in %s, want once", m.name, m.find, n, m.file)
	}
	after := find.ReplaceAll(source, []byte(m.with))
	if bytes.Equal(after, source) {
		return nil, fmt.Errorf("%s changes nothing", m.name)
	}
	return after, nil
}

// plant runs the tests of the mutant until one fails, and returns which; "" if all pass.
func (m mutant) plant(root string) (killer string, err error) {
	after, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(m.file))
	overlay := filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): file}})
	if err := errors.Join(err, os.WriteFile(file, after, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	for _, line := range m.tests {
		killer, output, err := test(root, overlay, line)
		if err != nil {
			return "", fmt.Errorf("%w\n%s", err, output)
		}
		if killer != "" {
			return killer, nil
		}
	}
	return "", nil
}

// test runs go test with the arguments, and returns the first test that failed. Programs that the tests build see the overlay, too.
func test(root, overlay, arguments string) (failed, output string, err error) {
	// Uncached: a test of a program that it builds itself is the same test with a bug in the program.
	command := exec.Command("go", append([]string{"test", "-count=1", "-json", "-vet=off", "-failfast"}, strings.Fields(arguments)...)...)
	command.Dir = root
	command.Env = os.Environ()
	if overlay != "" {
		command.Env = append(command.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	events, err := command.Output()
	var text strings.Builder
	ran := false
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output, FailedBuild string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		ran = ran || event.Test != ""
		text.WriteString(event.Output)
		switch {
		case event.Action == "build-fail", event.FailedBuild != "":
			return "", text.String(), errors.New("it does not compile")
		case event.Action == "fail" && event.Test != "":
			return strings.TrimPrefix(event.Package, "github.com/slidegate/slidegate/") + " " + event.Test, text.String(), nil
		case event.Action == "fail":
			failed = strings.TrimPrefix(event.Package, "github.com/slidegate/slidegate/") // a panic, or a time-out
		}
	}
	if !ran {
		return "", text.String(), fmt.Errorf("go test %s ran no test: %w", arguments, err)
	}
	return failed, text.String(), nil
}
