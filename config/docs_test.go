package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocs reads every example of the documents: whole files as they are, and parts as a field of a file or of a policy. A
// field that occurs several times in an example shows alternatives.
func TestDocs(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", "hunter2")
	t.Setenv("PGPASSWORD", "hunter2")
	text, err := os.ReadFile(filepath.Join("..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(write(t, map[string]string{"overrides.yaml": "- {key: 192.0.2.1, limits: [500/1m]}\n"}), "config.md")
	fields := map[string]bool{}
	for _, match := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		block := match[1]
		if strings.Contains(block, "policies:\n") {
			if _, err := parseOffline(name, []byte(block)); err != nil {
				t.Errorf("%v in\n%s", err, block)
			}
			continue
		}
		for _, part := range regexp.MustCompile(`(?m)^\w.*\n(?:[ ].*\n)*`).FindAllString(block, -1) {
			field, _, _ := strings.Cut(part, ":")
			fields[field] = true
			file := part + "policies: {api: {limits: [100/1m]}}\n"
			if !slices.Contains(fileTable.names(), field) {
				file = "policies:\n  api:\n    " + strings.ReplaceAll(part, "\n", "\n    ") + "\n"
				file += map[string]string{"plan": "    plans: {pro: {unlimited: true}}\n", "plans": "    plan: user\n"}[field]
				if field != "limits" {
					file += "    limits: [1000/1m]\n"
				}
			}
			if _, err := parseOffline(name, []byte(file)); err != nil {
				t.Errorf("%v in\n%s", err, file)
			}
		}
	}
	for _, name := range slices.Concat(fileTable.names(), policyTable.names()) {
		if !fields[name] && name != "policies" {
			t.Errorf("%s has no example", name)
		}
	}
}

// TestPackageExample reads the example of the package's documentation.
func TestPackageExample(t *testing.T) {
	t.Setenv("REDIS_PASSWORD", "hunter2")
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	for line := range strings.Lines(string(source)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			example.WriteString(code)
		}
	}
	file, err := Parse("doc.go", []byte(example.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(fileTable.names(), policyTable.names()) {
		if !strings.Contains(example.String(), name+":") {
			t.Errorf("%s is not in the example", name)
		}
	}
	if p := file.Policies[0]; len(p.Limits) != 2 || len(p.Overrides) != 2 {
		t.Errorf("the example is read as %+v", file)
	}
}
