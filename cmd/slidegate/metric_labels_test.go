package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	metricCells = regexp.MustCompile("^\\| (`slidegate_[^|]*)\\|([^|]*)\\|")
	quotedWord  = regexp.MustCompile("`([a-z_]+)`")
)

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
	if err := os.WriteFile(args[1], []byte("trusted_proxies: [127.0.0.1]\npolicies:\n  default: {limits: [2/1h]}\n"), 0o600); err != nil {
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
