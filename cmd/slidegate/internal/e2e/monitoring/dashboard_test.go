package monitoring_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestDashboard checks that every query of every panel, and every metric of every alert, has data in a Prometheus that scrapes a
// service over Redis and one in memory, both under load. It does not draw the panels: that would need Grafana.
func TestDashboard(t *testing.T) {
	const policies = `
policies:
  api: {limits: [5/1m notify=80%]}
  watched: {limits: [1/1m], shadow: true}
`
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	servicetest.Write(t, rules, "domain: web\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n")
	near := servicetest.Start(t, policies, func(o *service.Options) {
		o.Metrics, o.Envoy, o.State = "127.0.0.1:0", []string{rules}, filepath.Join(t.TempDir(), "state")
	})
	far := servicetest.Start(t, "store_timeout: 5s\nstore: redis://"+redistest.Server(t).Addr()+policies, func(o *service.Options) {
		o.Metrics, o.Envoy = "127.0.0.1:0", []string{rules}
	})
	p := startPrometheus(t, near.Address("metrics"), far.Address("metrics"))

	var stop atomic.Bool
	var running sync.WaitGroup
	for _, s := range []*servicetest.Service{near, far} {
		running.Go(func() { load(t, s, &stop) })
	}
	defer running.Wait()
	defer stop.Store(true)

	for title, queries := range panels(t) {
		for _, query := range queries {
			var got []string
			testkit.Eventually(t, title+": data for "+query, func() bool {
				got = p.values(t, query)
				return strings.Trim(strings.Join(got, ""), "Na") != "" // not empty, and not only NaN
			})
		}
	}
	alerts, err := os.ReadFile(filepath.Join(deploy, "prometheus", "alerts.yaml"))
	testkit.NoError(t, err)
	metrics := regexp.MustCompile(`\bslidegate_[a-z_]+`).FindAllString(string(alerts), -1)
	if len(metrics) < 10 {
		t.Errorf("found only %d metrics in the alerts", len(metrics))
	}
	for _, metric := range metrics {
		if metric == "slidegate_certificate_expiry_timestamp_seconds" { // these services have no TLS; the server's own tests check it
			continue
		}
		testkit.Eventually(t, "data for "+metric, func() bool { return len(p.values(t, metric)) > 0 })
	}
	var got struct {
		Groups []struct {
			Rules []struct{ Name, Health, State, LastError string }
		}
	}
	testkit.Eventually(t, "all alerts to be evaluated", func() bool {
		p.get(t, "/api/v1/rules", &got)
		for _, group := range got.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return false
				}
			}
		}
		return len(got.Groups) > 0
	})
	for _, rule := range got.Groups[0].Rules {
		if rule.State == "firing" {
			t.Errorf("%s fires although nothing is wrong", rule.Name)
		}
	}
}

// panels returns the queries of the dashboard by panel title, with values for Grafana's variables.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana", "slidegate.json"))
	testkit.NoError(t, err)
	var board struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	testkit.NoError(t, json.Unmarshal(text, &board))
	filled := strings.NewReplacer("$job", "slidegate", "$instance", ".*", "$policy", ".*", "$__rate_interval", "30s")
	all := map[string][]string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			query := filled.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("%s: unknown variable in %s", panel.Title, query)
			}
			all[panel.Title] = append(all[panel.Title], query)
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s has no query", panel.Title)
		}
	}
	if len(all) < 15 {
		t.Errorf("found only %d panels", len(all))
	}
	return all
}

// load sends requests to every listener until stop is set.
func load(t *testing.T, s *servicetest.Service, stop *atomic.Bool) {
	conn, err := grpc.NewClient(s.Address("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	envoy := rls.NewRateLimitServiceClient(conn)
	client := redis.NewClient(&redis.Options{Addr: s.Address("resp")})
	defer client.Close()
	for i := 0; !stop.Load(); i++ {
		key := fmt.Sprint("key ", i%5)
		for _, policy := range []string{"api", "watched"} {
			s.Send(t, "http", "POST", "/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, policy, key))
			if err := client.Do(t.Context(), "SG.ALLOW", policy, key).Err(); err != nil {
				t.Error(err)
			}
		}
		if _, err := envoy.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
			Domain: "web", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: key}}}},
		}); err != nil {
			t.Error(err)
		}
	}
}
