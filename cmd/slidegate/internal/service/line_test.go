package service_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// await waits until something is so.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > 20*time.Second {
			t.Fatal("it did not happen")
		}
	}
}

// queued are requests that wait in line, one at each listener that lets requests wait. The limit has no unit for them in the next hour.
var queued = []struct{ listener, method, path, body string }{
	{"http", "POST", "/v1/allow", `{"policy":"api","key":"k"}`},
	{"http", "POST", "/v1/reserve", `{"policy":"reserved","key":"k","cost":1}`},
	{"http", "GET", "/v1/check?policy=check", ""},
	{"proxy", "GET", "/", ""},
}

const queuedPolicies = `
policies:
  api: {limits: [1/1h], wait: 1h, match: /api}
  reserved: {limits: [1/1h], wait: 1h, match: /reserved}
  check: {limits: [1/1h], wait: 1h, match: /check}
  proxied: {limits: [1/1h], wait: 1h, match: /}
`

// queue takes the unit of each limit, and sends the queued requests. It returns when all wait. Each calls answered when it ends.
func (s *started) queue(t *testing.T, ctx context.Context, answered func(path string, response *http.Response)) {
	t.Helper()
	send := func(ctx context.Context, i int) *http.Response {
		q := queued[i]
		r, err := http.NewRequestWithContext(ctx, q.method, "http://"+s.Address(q.listener)+q.path, strings.NewReader(q.body))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-Method", "GET")
		r.Header.Set("X-Forwarded-Uri", "/check")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil
		}
		response.Body.Close()
		return response
	}
	for i := range queued {
		if got := send(t.Context(), i); got == nil || got.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %v, want it admitted", queued[i].path, got)
		}
	}
	for i := range queued {
		go func() { answered(queued[i].path, send(ctx, i)) }()
	}
	for _, policy := range []string{"api", "reserved", "check", "proxied"} {
		await(t, func() bool {
			n, _ := s.metric(t, `slidegate_policy_waiting{policy="`+policy+`"}`)
			return n == 1
		})
	}
}

// Clients that leave the line are neither refused nor an outage: they are counted as clients that left.
func TestClientsThatLeaveTheLineAreNoOutage(t *testing.T) {
	s := start(t, queuedPolicies, withApplication(t, nil))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s.queue(t, ctx, func(string, *http.Response) {})
	leave()
	for listener, want := range map[string]float64{"http": 3, "proxy": 1} {
		await(t, func() bool {
			left, _ := s.metric(t, `slidegate_requests_total{listener="`+listener+`",status="499"}`)
			return left == want
		})
	}
	for series, want := range map[string]float64{
		`slidegate_requests_total{listener="http",status="200"}`: 3, `slidegate_requests_total{listener="http",status="503"}`: 0,
		`slidegate_requests_total{listener="proxy",status="200"}`: 1, `slidegate_requests_total{listener="proxy",status="503"}`: 0,
		`slidegate_policy_decisions_total{by="limits",outcome="error",policy="api"}`:   0,
		`slidegate_policy_decisions_total{by="limits",outcome="refused",policy="api"}`: 0,
		`slidegate_policy_waits_total{outcome="gave_up",policy="api"}`:                 1,
		`slidegate_errors_total{error_type="canceled",store="memory"}`:                 0,
	} {
		if got, _ := s.metric(t, series); got != want {
			t.Errorf("%s: got %v, want %v", series, got, want)
		}
	}
	if s.Log.Has("level=WARN") {
		t.Errorf("got a warning about clients that left:\n%s", s.Log)
	}
}

// Requests in line are refused when the listeners close, and told when to come again. They neither delay the end nor are cut off.
func TestRequestsInLineAreRefusedAtTheEnd(t *testing.T) {
	s := start(t, queuedPolicies, withApplication(t, nil))
	type answer struct {
		path     string
		response *http.Response
	}
	answers := make(chan answer, len(queued))
	s.queue(t, t.Context(), func(path string, response *http.Response) { answers <- answer{path, response} })
	s.Stop(t)
	for range queued {
		got := <-answers
		if got.response == nil {
			t.Errorf("%s: the connection was closed, want 429", got.path)
			continue
		}
		seconds, _ := strconv.Atoi(got.response.Header.Get("Retry-After"))
		if got.response.StatusCode != http.StatusTooManyRequests || seconds < 3000 || seconds > 3600 {
			t.Errorf("%s: got %s with Retry-After %d, want 429 with what is left of the hour", got.path, got.response.Status, seconds)
		}
	}
	if s.Log.Has("not drained in time") {
		t.Errorf("requests in line delayed the end:\n%s", s.Log)
	}
}
