package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestAlerts: Prometheus takes the alerts, and its unit tests of them pass.
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

// TestEveryAlertIsTested: the unit tests have for each alert a time at which it fires, one before at which it does not, and one
// after at which it has cleared.
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
		t.Errorf("only %d alerts were found", len(names))
	}
	for _, name := range names {
		if got := seen[name[1]]; got != "quiet fires quiet " {
			t.Errorf("%s: the tests say %q, want quiet, fires, quiet", name[1], got)
		}
	}
}
