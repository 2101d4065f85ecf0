package jsonapi

import (
	"context"
	"errors"
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
