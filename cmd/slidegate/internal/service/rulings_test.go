package service_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/memstore"
)

const ruledFile = "default_policy: api\npolicies: {api: {limits: [2/1h]}, login: {limits: [5/1m]}}\n"

// Operators change rulings on the admin listener, which names invalid fields.
func TestRulings(t *testing.T) {
	s := start(t, ruledFile, nil)
	for _, step := range []struct {
		method, path, body string
		status             int
		want               []string
	}{
		{"GET", "/v1/rulings", "", 200, []string{`"rulings":[]`, `"read_at":"`}},
		{"GET", "/v1/rulings/log", "", 200, []string{`"log":[]`}},
		{"POST", "/v1/rulings", `{"key":"bad","kind":"block","for":"90m","who":"ann","why":"abuse"}`, 200, []string{`"ruling":{"policy":"api","key":"bad","kind":"block","until":"`, `"who":"ann (not verified)","why":"abuse"`}},
		{"POST", "/v1/rulings", `{"key":"bad","kind":"limits","limits":["7/1h"],"until":"2099-01-01T00:00:00+01:00","who":"bob"}`, 200, []string{`"limits":["7/1h"],"until":"2098-12-31T23:00:00Z"`, `"replaced":{"policy":"api","key":"bad","kind":"block"`}},
		{"GET", "/v1/rulings", "", 200, []string{`"key":"bad","kind":"limits"`}},
		{"GET", "/v1/explain?key=bad", "", 200, []string{`"ruling":{"policy":"api","key":"bad","kind":"limits"`, `"quota":7`}},
		{"GET", "/v1/state?key=bad", "", 200, []string{`"ruling":{"policy":"api","key":"bad","kind":"limits"`, `"quota":7`, `"history":[{"policy":"api","key":"bad","kind":"limits"`, `"kind":"block"`}},
		{"GET", "/v1/state?key=good", "", 200, []string{`"quota":2`, `"history":[]`}},
		{"POST", "/v1/rulings/clear", `{"key":"bad","kind":"block","who":"ann"}`, 400, []string{`"field":"kind"`}},
		{"POST", "/v1/rulings/clear", `{"key":"bad","kind":"override","who":"ann","why":"done"}`, 200, []string{`"ended":{"policy":"api","key":"bad","kind":"limits"`}},
		{"POST", "/v1/rulings/clear", `{"key":"bad","who":"ann"}`, 404, []string{`"field":"key"`, "no ruling"}},
		{"GET", "/v1/rulings/log?n=1", "", 200, []string{`"log":[{"policy":"api","key":"bad","kind":"clear","who":"ann (not verified)","why":"done"`}},
		{"GET", "/v1/rulings/log?n=0", "", 400, []string{`"field":"n"`}},
		{"POST", "/v1/rulings", `{"policy":"nosuch","key":"x","kind":"block","who":"ann"}`, 404, []string{`"field":"policy"`, "login"}},
		{"POST", "/v1/rulings", `{"policy":"envoy:d","key":"x","kind":"block","who":"ann"}`, 404, []string{`"field":"policy"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","who":"` + strings.Repeat("w", 120) + `"}`, 400, []string{`"field":"who"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block"}`, 200, []string{`"who":"(not verified)"`}},
		{"POST", "/v1/rulings", `{"kind":"block","who":"ann"}`, 400, []string{`"field":"key"`}},
		{"POST", "/v1/rulings", `{"key":"` + strings.Repeat("k", 1025) + `","kind":"block","who":"ann"}`, 400, []string{`"field":"key"`, "1024"}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"blok","who":"ann"}`, 400, []string{`"field":"kind"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"limits","limits":["many"],"who":"ann"}`, 400, []string{`"field":"limits"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","until":"2020-01-01T00:00:00Z","who":"ann"}`, 400, []string{`"field":"until"`, "in the past"}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","until":"18:00","who":"ann"}`, 400, []string{`"field":"until"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","for":"-1h","who":"ann"}`, 400, []string{`"field":"for"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","for":"40000d","who":"ann"}`, 400, []string{`"field":"until"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","for":"99999999999999d","who":"ann"}`, 400, []string{`"field":"for"`}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","for":"1h","until":"2099-01-01T00:00:00Z","who":"ann"}`, 400, []string{`"field":"for"`, "not both"}},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","untill":"1h","who":"ann"}`, 400, []string{`"field":"untill"`, `"did_you_mean":"until"`}},
		{"POST", "/v1/rulings", `{"key":7}`, 400, []string{`"field":"key"`}},
		{"POST", "/v1/rulings", `{"key":`, 400, nil},
		{"POST", "/v1/rulings", `{"key":"x","kind":"block","who":"ann"} {}`, 400, nil},
		{"POST", "/v1/rulings", `{"why":"` + strings.Repeat("x", 70_000) + `"}`, 413, nil},
		{"DELETE", "/v1/rulings", "", 405, []string{"GET and POST"}},
		{"GET", "/v1/rulings/clear", "", 405, []string{"POST"}},
	} {
		got := s.send(t, "admin", step.method, step.path, step.body)
		if got.status != step.status {
			t.Errorf("%s %s %.200s: got %d %s, want %d", step.method, step.path, step.body, got.status, got.body, step.status)
		}
		for _, want := range step.want {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s %s %.200s: got %s, want %s", step.method, step.path, step.body, got.body, want)
			}
		}
	}
	if got := s.send(t, "admin", "POST", "/v1/rulings", "", "Content-Type", "text/plain"); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("a web page's form: got %d, want 415", got.status)
	}
	if got := s.send(t, "http", "GET", "/v1/rulings", ""); got.status != http.StatusNotFound {
		t.Errorf("the clients' listener: got %d, want 404", got.status)
	}
}

// Rulings require the admin listener's token.
func TestRulingsNeedToken(t *testing.T) {
	s := start(t, ruledFile, func(o *service.Options) { o.Tokens = []string{"a-secret-of-some-length"} })
	for _, path := range []string{"/v1/rulings", "/v1/rulings/log"} {
		if got := s.send(t, "admin", "GET", path, ""); got.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: got %d, want 401", path, got.status)
		}
		if got := s.send(t, "admin", "GET", path, "", "Authorization", "Bearer a-secret-of-some-length"); got.status != http.StatusOK {
			t.Errorf("%s with a token: got %d, want 200", path, got.status)
		}
	}
}

// All listeners refuse a blocked key, and report for how long.
func TestBlockOnAllListeners(t *testing.T) {
	s := start(t, "trusted_proxies: [127.0.0.0/8]\npolicies: {api: {key: \"{header:X-Key}\", limits: [2/1h]}}\n", nil)
	check := func() reply {
		return s.send(t, "http", "GET", "/v1/check", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "203.0.113.7", "X-Key", "bad")
	}
	for _, test := range []struct {
		end, retry string
		status     int
	}{{`,"for":"1h"`, "3600", http.StatusTooManyRequests}, {"", "", http.StatusForbidden}} {
		if got := s.send(t, "admin", "POST", "/v1/rulings", `{"key":"bad","kind":"block","who":"ann"`+test.end+`}`); got.status != http.StatusOK {
			t.Fatalf("block: got %+v, want status 200", got)
		}
		if got := check(); got.status != test.status || got.header.Get("Retry-After") != test.retry || !strings.Contains(got.body, "The client is blocked.") {
			t.Errorf("forward-auth: got %+v, want %d and Retry-After %q", got, test.status, test.retry)
		}
		got := s.send(t, "http", "POST", "/v1/allow", `{"key":"bad"}`)
		var decoded struct {
			By         string
			RetryAfter *int64 `json:"retry_after_us"`
		}
		err := json.Unmarshal([]byte(got.body), &decoded)
		if err != nil || got.status != http.StatusTooManyRequests || decoded.By != "ruling" || got.header.Get("Retry-After") != test.retry ||
			(decoded.RetryAfter == nil) != (test.retry == "") {
			t.Errorf("JSON: got %+v, want a refusal by a ruling, and Retry-After %q", got, test.retry)
		}
	}
	if got := s.send(t, "admin", "GET", "/v1/seen", ""); !strings.Contains(got.body, `"masked":"…","admitted":0,"refused":4`) {
		t.Errorf("/v1/seen: got %s, want the blocked key, refused 4 times", got.body)
	}
}

// A server with a state folder keeps its rulings in it.
func TestRulingsOfState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	with := func(o *service.Options) { o.State = path }
	s := start(t, ruledFile, with)
	s.send(t, "admin", "POST", "/v1/rulings", `{"key":"bad","kind":"block","who":"ann"}`)
	s.Stop(t)
	again := start(t, ruledFile, with)
	if got := again.send(t, "admin", "GET", "/v1/rulings", ""); !strings.Contains(got.body, `"key":"bad"`) {
		t.Errorf("after a restart: got %s, want the ruling", got.body)
	}
}

// An instance that has not read the rulings says so: it is not ready while the store answers, and lists none.
func TestRulingsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	st, err := memstore.Open(path, memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.SwapDocument(t.Context(), "rulings", []byte("damaged"), 0); err != nil { // the store answers, but not this
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s := start(t, ruledFile, func(o *service.Options) { o.State = path })
	if got := s.send(t, "admin", "GET", "/readyz", ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "rulings have not been read") {
		t.Errorf("/readyz: got %+v, want 503 that says why", got)
	}
	if got := s.send(t, "admin", "GET", "/v1/rulings", ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "not been read") {
		t.Errorf("the list: got %+v, want 503", got)
	}
	metrics := s.send(t, "admin", "GET", "/metrics", "").body
	if strings.Contains(metrics, "\nslidegate_rulings{") || strings.Contains(metrics, "\nslidegate_rulings ") || !strings.Contains(metrics, "\nslidegate_rulings_age_seconds") {
		t.Errorf("got the metrics\n%s\nwant an age, but no number of rulings", metrics)
	}
	if !s.Log.Has("rulings not read") {
		t.Errorf("got the log\n%s", s.Log)
	}
}

// While the store is away from the start, /readyz decides as without rulings, but names them.
func TestRulingsNotReadWithoutStore(t *testing.T) {
	s := start(t, "store: redis://127.0.0.1:1\n"+ruledFile, nil)
	for path, status := range map[string]int{"/readyz": http.StatusOK, "/readyz?require=store": http.StatusServiceUnavailable} {
		got := s.send(t, "admin", "GET", path, "")
		if got.status != status || !strings.Contains(got.body, "degraded: store") || !strings.Contains(got.body, "rulings have not been read") {
			t.Errorf("%s: got %+v, want %d and both reasons", path, got, status)
		}
	}
}
