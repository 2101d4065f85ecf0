package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/servicetest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

// TestOutageDrills makes the store hang, kills it, or restarts it under load. The log has one line for the beginning and one for
// the end, and the numbers of decisions by failure mode in the log and in the metrics equal what the clients got.
func TestOutageDrills(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (url string, down, up func()){
		"redis stopped": func(t *testing.T) (string, func(), func()) {
			node := redistest.Server(t)
			return "redis://" + node.Addr(), func() { node.Signal(syscall.SIGSTOP) }, func() { node.Signal(syscall.SIGCONT) }
		},
		"redis killed": func(t *testing.T) (string, func(), func()) {
			node := redistest.Server(t)
			return "redis://" + node.Addr(), node.Kill, node.Restart
		},
		"postgres restarted": func(t *testing.T) (string, func(), func()) {
			db := pgtest.Start(t, "fsync = off")
			return db.URL(), db.Kill, db.Restart
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, down, up := open(t)
			drill(t, url, down, up)
		})
	}
}

// drillPolicies are the policies of the drill, which are named after their failure modes, and Envoy's rule, whose mode is closed: Envoy
// gets an error.
var drillPolicies = []string{"open", "closed", "local", "envoy"}

// drillFile has a policy for each mode.
const drillFile = `
store: %q
store_timeout: 300ms
policies:
  open: {failure: open, limits: [1000000/1h]}
  closed: {failure: closed, limits: [1000000/1h]}
  local: {failure: local, limits: [1000000/1h]}
`

func drill(t *testing.T, url string, down, up func()) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	servicetest.Write(t, rules, "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: hour, requests_per_unit: 1000000}}\n")
	s := servicetest.Start(t, fmt.Sprintf(drillFile, url), func(o *service.Options) { o.Envoy = []string{rules} })
	testkit.Eventually(t, "the service is ready", func() bool { return s.Send(t, "http", "GET", "/readyz?require=store", "").Status == http.StatusOK })

	store, _, _ := strings.Cut(url, ":")
	clients := map[string]*drillClient{}
	var stop atomic.Bool
	var running sync.WaitGroup
	for _, policy := range drillPolicies {
		c := &drillClient{policy: policy, byMode: map[string]int64{}}
		clients[policy] = c
		running.Go(func() {
			for !stop.Load() {
				c.send(t, s)
			}
		})
	}
	await := func(what string, is func(c *drillClient) bool) {
		t.Helper()
		for policy, c := range clients {
			testkit.Eventually(t, what+" for "+policy, func() bool { return is(c) })
		}
	}
	await("the store decides", func(c *drillClient) bool { return c.byStore.Load() > 20 })
	down()
	await("failure modes decide", func(c *drillClient) bool { return c.fallbacks.Load() > 50 })
	page := func() string { return s.Send(t, "admin", "GET", "/metrics", "").Body }
	testkit.Eventually(t, "the metrics say that the store is down", func() bool {
		now := page()
		return strings.Contains(now, fmt.Sprintf("slidegate_store_up{store=%q} 0", store)) &&
			strings.Contains(now, fmt.Sprintf("slidegate_breaker_open{store=%q} 1", store))
	})
	up()
	for _, c := range clients {
		c.byStore.Store(0)
	}
	await("the store decides again", func(c *drillClient) bool { return c.byStore.Load() > 20 })
	stop.Store(true)
	running.Wait()
	counted := map[string]int64{}
	for _, c := range clients {
		for mode, n := range c.byMode {
			counted[mode] += n
		}
	}
	t.Logf("the clients counted %v", counted)
	testkit.Eventually(t, "the log counts all of them", func() bool { return maps.Equal(logged(s.Log.String()), counted) })
	if got := measured(page()); !maps.Equal(got, counted) {
		t.Errorf("the metrics have %v, want %v", got, counted)
	}
	testkit.Eventually(t, "the metrics say that the store is up and in use", func() bool {
		now := page()
		return strings.Contains(now, fmt.Sprintf("slidegate_store_up{store=%q} 1", store)) && !regexp.MustCompile(`slidegate_breaker_open\{.*\} 1`).MatchString(now)
	})
	began, ended := strings.Count(s.Log.String(), "requests are decided without it"), strings.Count(s.Log.String(), "the store decides again")
	if began == 0 || began != ended || began > 3 { // on a busy machine it may look like several outages
		t.Errorf("%d lines for a beginning and %d for an end, want one each:\n%s", began, ended, s.Log)
	}
}

// drillClient sends requests for one policy, and counts the decisions of the store and of failure modes. A request in mode open that is
// late before the outage is found is decided by mode local.
type drillClient struct {
	policy             string
	requests           int
	byStore, fallbacks atomic.Int64
	byMode             map[string]int64
}

func (c *drillClient) send(t *testing.T, s *servicetest.Service) {
	c.requests++
	key := fmt.Sprint(c.requests % 100)
	path, body := "/v1/allow", fmt.Sprintf(`{"policy":%q,"key":%q}`, c.policy, key)
	if c.policy == "envoy" {
		path, body = "/json", fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":%q}]}]}`, key)
	}
	got := s.Send(t, "http", "POST", path, body)
	var answer struct{ Flags []string }
	_ = json.Unmarshal([]byte(got.Body), &answer)
	mode := ""
	if len(answer.Flags) > 0 {
		mode = strings.TrimPrefix(answer.Flags[0], "fallback_")
	}
	switch {
	case c.policy == "closed" && got.Status == http.StatusServiceUnavailable, c.policy == "envoy" && got.Status == http.StatusInternalServerError:
		mode = "closed"
	case mode != "" && mode != c.policy && (c.policy != "open" || mode != "local"), got.Status != http.StatusOK:
		t.Errorf("policy %s: %+v", c.policy, got)
	}
	if mode == "" {
		c.byStore.Add(1)
		return
	}
	c.byMode[mode]++
	c.fallbacks.Add(1)
}

// logged returns the number of decisions of each failure mode, summed over the lines of a log.
func logged(log string) map[string]int64 {
	sum := map[string]int64{}
	for _, found := range regexp.MustCompile(`decided\.(\w+)=(\d+)`).FindAllStringSubmatch(log, -1) {
		n, _ := strconv.ParseInt(found[2], 10, 64)
		sum[found[1]] += n
	}
	return sum
}

// measured returns the number of decisions of each failure mode in the metrics.
func measured(page string) map[string]int64 {
	sum := map[string]int64{}
	for _, found := range regexp.MustCompile(`(?m)^slidegate_decisions_total\{.*source="fallback_(\w+)".*\} (\d+)$`).FindAllStringSubmatch(page, -1) {
		n, _ := strconv.ParseInt(found[2], 10, 64)
		sum[found[1]] += n
	}
	for mode, n := range sum {
		if n == 0 {
			delete(sum, mode)
		}
	}
	return sum
}
