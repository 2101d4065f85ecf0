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
