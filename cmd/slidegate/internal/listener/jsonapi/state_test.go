package jsonapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rulings"
)

// Every kind of state is as documented, which send checks, with what the log has about the key.
func TestState(t *testing.T) {
	var failing error
	s := newService(t, Options{Log: func(context.Context) ([]rulings.Ruling, error) {
		return []rulings.Ruling{{Policy: "login", Key: "k", Kind: rulings.Block, Until: time.Unix(1, 0).UTC(), Who: "ann", Why: "test", At: time.Unix(0, 0).UTC()}}, failing
	}})
	s.post("/v1/allow", `{"policy":"login","key":"k"}`)
	s.post("/v1/acquire", `{"policy":"slots","key":"k"}`)
	s.post("/v1/reserve", `{"policy":"held","key":"k","cost":3}`)
	for policy, want := range map[string]string{
		"login":  `"form":"log","units":[{"from":1800000000000000,"to":1800000000000000,"units":1,"counts":1,"frees":1800000060000000}],"holds":[],"used":1,"remaining":1,`,
		"slots":  `"form":"slots","units":[{"from":1800000000000000,"to":1800000000000000,"units":1,"counts":1,"frees":1800000030000000,"id":"`,
		"held":   `"units":3,"ends":1800000030000000}],"used":3,"remaining":7,`,
		"listed": `"units":[],"holds":[],"used":0,"remaining":1,`,
	} {
		got := s.send("GET", "/v1/state?key=k&policy="+policy, "", "")
		if got.status != 200 || !strings.Contains(got.body, want) || strings.Contains(got.body, `"who":"ann"`) != (policy == "login") {
			t.Errorf("%s: got %d %s, want %s", policy, got.status, got.body, want)
		}
	}
	if got := s.send("GET", "/v1/state?policy=login&key=k&cost=3", "", ""); !strings.Contains(got.body, `"retry_after_us":null`) {
		t.Errorf("a cost above the quota: got %s, want that it is never admitted", got.body)
	}
	failing = errors.New("broken")
	if got := s.send("GET", "/v1/state?policy=login&key=k", "", ""); got.status != 503 {
		t.Errorf("without the log: got %d %s, want 503", got.status, got.body)
	}
}

// A look charges nothing, so in an outage the response does not say that something may have been charged, and a page that looks every
// second does not fill the log.
func TestStateInOutage(t *testing.T) {
	log := new(bytes.Buffer)
	s := newService(t, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	s.fail(errBroken)
	got := s.send("GET", "/v1/state?policy=login&key=k", "", "")
	got.wantProblem(t, 503, "", "nothing was charged")
	if strings.Contains(got.body, "10.1.2.3") || log.Len() > 0 {
		t.Errorf("got %s and the log %q, want neither a machine's name nor a line", got.body, log)
	}
}

// What is wrong with a key is said without the name of a package.
func TestProblemsNameNoPackage(t *testing.T) {
	s := newService(t, Options{})
	got := s.send("GET", "/v1/explain?policy=listed&key=10.0.0.0%2F8", "", "").wantProblem(t, 400, "key", "it is a prefix")
	if strings.Contains(got.Detail, "gate:") {
		t.Errorf("got %q, want no name of a package", got.Detail)
	}
}
