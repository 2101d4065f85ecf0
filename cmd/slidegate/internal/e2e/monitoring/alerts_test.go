package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestAlerts checks that Prometheus accepts the alerts, and that their unit tests pass.
func TestAlerts(t *testing.T) {
	folder := filepath.Join(deploy, "prometheus")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		run := exec.Command(testkit.Program(t, "promtool"), args...)
		run.Dir = folder
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestAlertNearALimit checks that Prometheus accepts the alert that the decisions have for keys near a limit, and that it fires when a
// threshold is reached, and clears.
func TestAlertNearALimit(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "decisions", "0034-what-we-do-not-do.md"))
	testkit.NoError(t, err)
	block := regexp.MustCompile("(?s)```yaml\n(.*?groups:.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no rule")
	}
	folder := t.TempDir()
	testkit.NoError(t, os.WriteFile(filepath.Join(folder, "near.yaml"), block[1], 0o600))
	testkit.NoError(t, os.WriteFile(filepath.Join(folder, "near_test.yaml"), []byte(`
rule_files: [near.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'slidegate_near_limit_total{instance="a",policy="api",threshold="80%"}', values: 0x10 1x30}
      - {series: 'slidegate_near_limit_total{instance="b",policy="api",threshold="80%"}', values: 0x40}
    alert_rule_test:
      - {alertname: SlidegateNearLimit, eval_time: 10m}
      - alertname: SlidegateNearLimit
        eval_time: 12m
        exp_alerts:
          - exp_labels: {policy: api, threshold: 80%}
            exp_annotations: {summary: keys of api have used 80% of a limit}
      - {alertname: SlidegateNearLimit, eval_time: 30m}
`), 0o600))
	for _, args := range [][]string{{"check", "rules", "near.yaml"}, {"test", "rules", "near_test.yaml"}} {
		run := exec.Command(testkit.Program(t, "promtool"), args...)
		run.Dir = folder
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestEveryAlertIsTested checks that the unit tests of each alert have a time before it fires, a time at which it fires, and a time
// after it has cleared.
func TestEveryAlertIsTested(t *testing.T) {
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts_test.yaml"))
	testkit.NoError(t, err)
	testkit.NoError(t, yaml.Unmarshal(text, &tests))
	seen := map[string]string{}
	for _, test := range tests.Tests {
		for _, at := range test.AlertRuleTest {
			if len(at.ExpAlerts) > 0 {
				seen[at.Alertname] += "fires "
			} else {
				seen[at.Alertname] += "quiet "
			}
		}
	}
	alerts, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts.yaml"))
	testkit.NoError(t, err)
	names := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(alerts), -1)
	if len(names) < 10 {
		t.Errorf("found only %d alerts", len(names))
	}
	for _, name := range names {
		if got := seen[name[1]]; got != "quiet fires quiet " {
			t.Errorf("%s: the tests expect %q, want quiet, fires, quiet", name[1], got)
		}
	}
}

// TestEveryAlertHasARunbookEntry checks that each alert links to its entry in the runbook, and that each entry is about an alert. Package
// docs makes the faults and runs the commands of the entries.
func TestEveryAlertHasARunbookEntry(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts.yaml"))
	testkit.NoError(t, err)
	testkit.NoError(t, yaml.Unmarshal(text, &file))
	page, err := os.ReadFile(filepath.Join(deploy, "..", "docs", "runbook.md"))
	testkit.NoError(t, err)
	var alerts, entries []string
	for _, rule := range file.Groups[0].Rules {
		alerts = append(alerts, rule.Alert)
		want := "https://github.com/slidegate/slidegate/blob/main/docs/runbook.md#" + strings.ToLower(rule.Alert)
		if got := rule.Annotations["runbook_url"]; got != want {
			t.Errorf("%s: got runbook_url %q, want %q", rule.Alert, got, want)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^## (Slidegate\w+)$`).FindAllStringSubmatch(string(page), -1) {
		entries = append(entries, match[1])
	}
	if len(alerts) == 0 || !slices.Equal(alerts, entries) {
		t.Errorf("the runbook has entries for %v, want %v, in this order", entries, alerts)
	}
}
