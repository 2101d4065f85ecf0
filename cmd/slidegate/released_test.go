package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/slidegate/slidegate/internal/testkit"
)

// releasedFile returns the path of a file that has what a release has promised; see internal/repotest.
func releasedFile(name string) string {
	return filepath.Join("..", "..", "internal", "repotest", "released", name)
}

// The commands, their arguments and their flags, with the words that they accept, are those that were released, or more; and so are the
// exit statuses and the environment variables that belong to no flag.
func TestReleasedCommands(t *testing.T) {
	parser, err := kong.New(&commands{}, kong.Vars(helpVars()))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{
		fmt.Sprint("exit status of success: ", exitOK), fmt.Sprint("exit status of a refusal: ", exitRefused),
		fmt.Sprint("exit status of an error: ", exitFailure), fmt.Sprint("exit status of an interrupt: ", exitInterrupted),
		"environment variable of --tls-cert: " + variableName("tls-cert"),
	}
	for _, name := range otherVariables {
		lines = append(lines, "environment variable "+name)
	}
	var walk func(node *kong.Node)
	walk = func(node *kong.Node) {
		path := strings.TrimSpace("slidegate " + node.Path())
		lines = append(lines, path)
		for _, argument := range node.Positional {
			if !argument.Tag.Hidden {
				lines = append(lines, describeValue(path, "argument "+argument.Name, argument)...)
			}
		}
		for _, flag := range node.Flags {
			name := "--" + flag.Name
			if flag.Short != 0 {
				name += fmt.Sprintf(" -%c", flag.Short)
			}
			lines = append(lines, describeValue(path, name, flag.Value)...)
		}
		for _, child := range node.Children {
			walk(child)
		}
	}
	walk(parser.Model.Node)
	testkit.Released(t, releasedFile("commands.txt"), slices.Compact(slices.Sorted(slices.Values(lines))))
}

// several are flags that were released for one value, and now take several.
var several = []string{"slidegate top --server"}

// describeValue returns a line for a flag or an argument, and one for each of the words that it accepts.
func describeValue(command, name string, v *kong.Value) []string {
	kind := v.Target.Type().String()
	if strings.Contains(kind, "kong.") {
		kind = "bool"
	}
	if slices.Contains(several, command+" "+name) {
		kind = strings.TrimPrefix(kind, "[]") // as released: one still works
	}
	line := fmt.Sprintf("%s %s (%s)", command, name, kind)
	lines := []string{line}
	for _, word := range allowedValues(v) {
		lines = append(lines, line+" may be "+word)
	}
	return lines
}

var (
	metricCells = regexp.MustCompile("^\\| (`slidegate_[^|]*)\\|([^|]*)\\|")
	quotedWord  = regexp.MustCompile("`([a-z_]+)`")
)

// The metrics and their labels are those that were released, or more. TestObservabilityDoc checks that the page lists the metrics that
// exist, and TestMetricsHaveDocumentedLabels their labels.
func TestReleasedMetrics(t *testing.T) {
	var lines []string
	for name, labels := range documentedLabels(t) {
		lines = append(lines, strings.TrimSpace(name+" "+strings.Join(labels, ",")))
	}
	slices.Sort(lines)
	testkit.Released(t, releasedFile("metrics.txt"), lines)
}

// documentedLabels returns the labels of each metric in the tables of docs/observability.md.
func documentedLabels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "observability.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	var labels []string
	for line := range strings.Lines(string(text)) {
		cells := metricCells.FindStringSubmatch(line)
		if cells == nil {
			continue
		}
		where := strings.TrimSpace(cells[2])
		if where != "likewise" {
			labels = nil
			for _, label := range quotedWord.FindAllStringSubmatch(cells[2], -1) {
				labels = append(labels, label[1])
			}
		}
		for i, name := range quotedWord.FindAllStringSubmatch(cells[1], -1) {
			if found[name[1]] = labels; i > 0 && strings.HasPrefix(where, "the first") {
				found[name[1]] = nil
			}
		}
	}
	if len(found) < 30 {
		t.Fatalf("found only %d metrics on the page", len(found))
	}
	return found
}

// The metrics of a busy service have the labels that their page says, and no others.
func TestMetricsHaveDocumentedLabels(t *testing.T) {
	args := busyFlags(t)
	if err := os.WriteFile(args[1], []byte("trusted_proxies: [127.0.0.1]\npolicies:\n  default: {limits: [2/1h], candidate: [1/1h]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, args...)
	s.traffic()
	_, page := s.page("admin", "/metrics")
	documented, series, checked := documentedLabels(t), regexp.MustCompile(`(?m)^(slidegate_\w+?)(?:_bucket|_sum|_count)?(?:\{(.*)\})? `), 0
	for _, found := range series.FindAllStringSubmatch(page, -1) {
		known, ok := documented[found[1]]
		var has []string
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(found[2], -1) {
			if label[1] != "le" {
				has = append(has, label[1])
			}
		}
		if found[1] == "slidegate_decision_duration_seconds" {
			has = append(has, "error_type") // only if there was an error
		}
		if checked += len(has); ok && !slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(known))) {
			t.Errorf("%s has the labels %s, and docs/observability.md lists %s", found[1], has, known)
		}
	}
	if checked < 30 {
		t.Errorf("found only %d labels", checked)
	}
}
