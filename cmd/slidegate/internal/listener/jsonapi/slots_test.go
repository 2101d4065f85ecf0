package jsonapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// A slot is acquired together with the policy's other limits, renewed, lost and released.
func TestSlots(t *testing.T) {
	s := newService(t, Options{})
	acquire := func() string {
		t.Helper()
		got := s.post("/v1/acquire", `{"policy":"slots","key":"ann"}`)
		if got.status != 200 || !strings.Contains(got.body, `,"ttl_us":30000000}`) {
			t.Fatalf("got %d %s, want 200 and ttl_us", got.status, got.body)
		}
		return `{"policy":"slots","reservation":` + reservationOf(t, got.body) + `}`
	}
	first := acquire()
	refused := s.post("/v1/acquire", `{"policy":"slots","key":"ann"}`)
	if refused.status != 429 || reservationOf(t, refused.body) != "null" || refused.header.Get("Retry-After") != "30" || strings.Contains(refused.body, "ttl_us") {
		t.Errorf("got %d %v %s, want 429 for 30 s", refused.status, refused.header, refused.body)
	}
	s.add(29 * time.Second)
	renewed := func(body string, status int, allowed bool) {
		t.Helper()
		got := s.post("/v1/renew", body)
		if got.status != status || !strings.HasPrefix(got.body, fmt.Sprintf(`{"allowed":%t,"policy":"slots","limit":"slots"`, allowed)) {
			t.Errorf("renew: got %d %s, want %d", got.status, got.body, status)
		}
	}
	renewed(first, 200, true)
	s.add(29 * time.Second)
	renewed(first, 200, true)
	s.post("/v1/release", first).want(t, 200, settledJSON(false, "slots", 1, "hour", 0))
	second := acquire()
	renewed(first, 409, false)
	if got := s.post("/v1/release", first); got.status != 200 || !strings.Contains(got.body, `"repeated":true`) {
		t.Errorf("release again: got %d %s, want 200 and repeated", got.status, got.body)
	}
	renewed(second, 200, true) // regardless of the first
	s.add(30 * time.Second)
	renewed(second, 409, false)
	third := acquire()
	s.post("/v1/cancel", third).want(t, 200, settledJSON(false, "slots", 1, "hour", 1))
	if got := s.post("/v1/peek", `{"policy":"slots","key":"ann"}`).body; !strings.Contains(got, `{"limit":"hour","allowed":true,"quota":4,"window_us":3600000000,"remaining":2`) {
		t.Errorf("got %s, want two charged to the hour", got)
	}
}

// If the store cannot remember a settlement, nothing is settled, and the response says so.
func TestUnsettled(t *testing.T) {
	s := newService(t, Options{})
	most := (&rule.Limit{Quota: 2, Window: 60e6}).Settlements()
	var last reply
	for range most + 1 {
		made := reservationOf(t, s.post("/v1/reserve", `{"key":"ann"}`).body)
		last = s.post("/v1/cancel", `{"reservation":`+made+`}`)
		if last.status != 200 {
			break
		}
	}
	last.wantProblem(t, 503, "", "cannot remember another settlement")
	if got := s.post("/v1/peek", `{"key":"ann"}`).body; !strings.Contains(got, `"remaining":1`) {
		t.Errorf("got %s, want the last one not refunded", got)
	}
}

// A reservation on a limit with hold outlives the window, and is charged when it is settled. A lost one is not renewed.
func TestHolds(t *testing.T) {
	s := newService(t, Options{})
	got := s.post("/v1/reserve", `{"policy":"held","key":"ann","cost":6}`)
	if got.status != 200 || !strings.Contains(got.body, `"ttl_us":30000000`) {
		t.Fatalf("got %d %s, want a reservation that is held for 30 seconds", got.status, got.body)
	}
	about := `{"policy":"held","reservation":` + reservationOf(t, got.body) + `}`
	for range 4 {
		s.add(20 * time.Second)
		if got := s.post("/v1/renew", about); got.status != 200 {
			t.Fatalf("renewed: got %d %s", got.status, got.body)
		}
	}
	if got := s.post("/v1/allow", `{"policy":"held","key":"ann","cost":5}`); got.status != 429 || !strings.Contains(got.body, `"flags":["held"]`) {
		t.Errorf("5 of 10 while 6 are held: got %d %s, want a refusal with the flag held", got.status, got.body)
	}
	s.post("/v1/settle", strings.TrimSuffix(about, "}")+`,"cost":2}`).want(t, 200, settledJSON(false, "10/1m fixed-window hold=30s", 4))
	if got := s.post("/v1/renew", about); got.status != 409 || !strings.Contains(got.body, `"retry_after_us":null`) {
		t.Errorf("renewed after the settlement: got %d %s, want 409 and no time to retry", got.status, got.body)
	}
	if got := s.post("/v1/peek", `{"policy":"held","key":"ann"}`); !strings.Contains(got.body, `"remaining":8`) {
		t.Errorf("got %s, want 2 charged", got.body)
	}
}

// A call with an ID counts once, and is cancelled by it; one that was cancelled first is refused.
func TestCallsWithAnID(t *testing.T) {
	s := newService(t, Options{})
	call := func(path, body string, status int, with ...string) string {
		t.Helper()
		got := s.post(path, body)
		for _, want := range with {
			if got.status != status || !strings.Contains(got.body, want) {
				t.Errorf("%s %s: got %d %s, want %d with %s", path, body, got.status, got.body, status, want)
			}
		}
		return got.body
	}
	const one = `{"policy":"two","key":"ann","cost":2,"id":"one"}`
	call("/v1/allow", one, 200, `"flags":[]`, `"remaining":1`)
	call("/v1/allow", one, 200, `"flags":["repeated"]`, `"granted":2`, `"remaining":1`)
	call("/v1/allow", `{"requests":[`+one+`,{"policy":"two","key":"ann","id":"two"}]}`, 200, `"flags":["repeated"]`, `"flags":[]`, `"remaining":0`)
	s.post("/v1/cancel", `{"policy":"two","key":"ann","id":"one"}`).want(t, 200, settledJSON(false, "burst", 2, "hour", 2))
	s.post("/v1/cancel", `{"policy":"two","key":"ann","id":"one"}`).want(t, 200, settledJSON(true, "burst", 2, "hour", 2))
	s.post("/v1/cancel", `{"policy":"two","key_base64":"YW5u","id":"early"}`).want(t, 200, settledJSON(false, "burst", 0, "hour", 0))
	call("/v1/allow", `{"policy":"two","key":"ann","id":"early"}`, 429, `"flags":["repeated"]`, `"retry_after_us":null`)
	first := reservationOf(t, call("/v1/reserve", `{"policy":"held","key":"ann","cost":6,"id":"long"}`, 200, `"flags":[]`))
	again := reservationOf(t, call("/v1/reserve", `{"policy":"held","key":"ann","cost":6,"id":"long"}`, 200, `"flags":["repeated"]`))
	if first != again || !strings.Contains(first, `"id":"long"`) {
		t.Errorf("got the reservation %s, and then %s", first, again)
	}
	s.post("/v1/cancel", `{"policy":"held","key":"ann","id":"long"}`).want(t, 200, settledJSON(false, "10/1m fixed-window hold=30s", 6))
	for _, wrong := range []struct{ path, body, field string }{
		{"/v1/allow", `{"key":"a","id":""}`, "id"}, {"/v1/allow", `{"key":"a","id":"x","up_to":true}`, "id"}, {"/v1/peek", `{"key":"a","id":"x"}`, "id"},
		{"/v1/allow", `{"key":"a","id":"` + strings.Repeat("x", 129) + `"}`, "id"}, {"/v1/reserve", `{"key":"a","id":"a.v1.b"}`, "id"},
		{"/v1/cancel", `{"id":"x"}`, "key"}, {"/v1/cancel", `{"key":"x"}`, "reservation"}, {"/v1/cancel", `{"id":"x","reservation":` + first + `}`, "reservation"},
		{"/v1/cancel", `{"id":"x","key":"a","key_base64":"YQ=="}`, "key_base64"},
	} {
		if got := s.sendTo(s.public, "POST", wrong.path, wrong.body, "application/json"); got.status != 400 || !strings.Contains(got.body, `"field":"`+wrong.field+`"`) {
			t.Errorf("%s %s: got %d %s, want 400 about %s", wrong.path, wrong.body, got.status, got.body, wrong.field)
		}
	}
}
