package jsonapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/store"
)

var errUnsupported = fmt.Errorf("store: %w: several nodes", store.ErrUnsupported)

// reservationOf extracts the reservation from a response.
func reservationOf(t testing.TB, body string) string {
	t.Helper()
	var got struct {
		Reservation json.RawMessage `json:"reservation"`
	}
	must(t, json.Unmarshal([]byte(body), &got))
	return string(got.Reservation)
}

// settledJSON returns the response of settle, cancel and release: limits, each followed by the amount refunded.
func settledJSON(repeated bool, given ...any) string {
	var limits []string
	for i := 0; i < len(given); i += 2 {
		limits = append(limits, fmt.Sprintf(`{"limit":%q,"given_back":%d}`, given[i], given[i+1]))
	}
	return fmt.Sprintf(`{"repeated":%t,"limits":[%s]}`, repeated, strings.Join(limits, ","))
}

func TestPeekChargesNothing(t *testing.T) {
	s := newService(t, Options{})
	for range 3 {
		s.post("/v1/peek", `{"key":"ann","cost":2}`).want(t, 200, plainDecision(true, "login", "2/1m", 2, 2, 0, 0, 0, start)).wantHeaders(t, "", "", "")
	}
	s.post("/v1/allow", `{"key":"ann","cost":2}`)
	s.post("/v1/peek", `{"key":"ann"}`).want(t, 200, plainDecision(false, "login", "2/1m", 2, 0, 0, 60e6, 60e6, start))
}

func TestReserveSettleCancelRefundReset(t *testing.T) {
	s := newService(t, Options{})
	left := func(want int) {
		t.Helper()
		if got := s.post("/v1/peek", `{"policy":"two","key":"\u0000é"}`).body; !strings.Contains(got, fmt.Sprintf(`"quota":4,"window_us":3600000000,"remaining":%d`, want)) {
			t.Fatalf("got %s, want %d left of the hour", got, want)
		}
	}
	reserve := func(cost int) string {
		got := s.post("/v1/reserve", fmt.Sprintf(`{"policy":"two","key_base64":"AMOp","cost":%d}`, cost))
		if got.status != 200 || got.header.Get("RateLimit") == "" {
			t.Fatalf("got %d %v %s, want 200 with RateLimit", got.status, got.header, got.body)
		}
		return reservationOf(t, got.body)
	}
	one := reserve(3)
	left(1)
	s.post("/v1/settle", `{"policy":"two","reservation":`+one+`,"costs":[1,1]}`).want(t, 200, settledJSON(false, "burst", 2, "hour", 2))
	s.post("/v1/settle", `{"policy":"two","reservation":`+one+`,"costs":[0,0]}`).want(t, 200, settledJSON(true, "burst", 2, "hour", 2))
	left(3)
	two := reserve(1)
	s.post("/v1/settle", `{"policy":"two","reservation":`+two+`,"costs":[1,2]}`).want(t, 200, settledJSON(false, "burst", 0, "hour", -1))
	left(1)
	s.add(1e9)
	three := reserve(1)
	left(0)
	refused := s.post("/v1/reserve", `{"policy":"two","key_base64":"AMOp"}`)
	if refused.status != 429 || reservationOf(t, refused.body) != "null" || refused.header.Get("Retry-After") != "3599" {
		t.Errorf("got %d %v %s, want 429, no reservation and Retry-After 3599", refused.status, refused.header, refused.body)
	}
	for _, repeated := range []bool{false, true} {
		s.post("/v1/cancel", `{"policy":"two","reservation":`+three+`}`).want(t, 200, settledJSON(repeated, "burst", 1, "hour", 1))
	}
	left(1)
	if got := s.post("/v1/refund", `{"policy":"two","key":"\u0000é","cost":2}`); got.status != 200 || !strings.Contains(got.body, `"granted":`) {
		t.Errorf("got %d %s, want 200 and granted", got.status, got.body)
	}
	left(3)
	s.post("/v1/reset", `{"policy":"two","key":"\u0000é"}`).want(t, 204, "")
	left(4)
	// If nothing was charged, there is nothing to settle.
	free := reservationOf(t, s.post("/v1/reserve", `{"policy":"listed","key":"good"}`).body)
	s.post("/v1/settle", `{"policy":"listed","reservation":`+free+`,"cost":7}`).want(t, 200, settledJSON(false))
	s.post("/v1/settle", `{"policy":"two","reservation":`+two+`,"costs":[1,2,3]}`).
		wantProblem(t, 400, "costs", "3 costs for 2 charges")
}

// A cost without a name goes to the only limit; if there are several, it would be charged to all of them.
func TestSettleByLimit(t *testing.T) {
	s := newService(t, Options{})
	left := func(want ...int) {
		t.Helper()
		var got struct{ Limits []struct{ Remaining int } }
		must(t, json.Unmarshal([]byte(s.post("/v1/peek", `{"policy":"two","key":"ann"}`).body), &got))
		for i := range want {
			if got.Limits[i].Remaining != want[i] {
				t.Fatalf("got %+v left, want %v", got.Limits, want)
			}
		}
	}
	left(3, 4)
	made := reservationOf(t, s.post("/v1/reserve", `{"policy":"two","key":"ann","cost":2}`).body)
	left(1, 2)
	settle := func(costs string) reply {
		return s.post("/v1/settle", `{"policy":"two","reservation":`+made+`,`+costs+`}`)
	}
	for _, wrong := range []struct{ costs, field, detail string }{
		{`"cost":1`, "cost", "costs by limit"},
		{`"costs":[1]`, "costs", "costs by limit"},
		{`"costs":{"hours":1}`, "reservation", `want one of "burst", "hour"`},
		{`"costs":{"":1}`, "reservation", `want one of "burst", "hour"`},
	} {
		settle(wrong.costs).wantProblem(t, 400, wrong.field, wrong.detail)
		left(1, 2)
	}
	settle(`"costs":{"hour":1}`).want(t, 200, settledJSON(false, "burst", 0, "hour", 1))
	left(1, 3)
	settle(`"costs":{"4/1h fixed-window name=hour":0, "burst":1}`).want(t, 200, settledJSON(true, "burst", 0, "hour", 1))
	left(1, 3)
	made = reservationOf(t, s.post("/v1/reserve", `{"policy":"two","key":"ann"}`).body)
	settle(`"costs":{}`).want(t, 200, settledJSON(false, "burst", 0, "hour", 0))
	left(0, 2)
}

// Charging is unconditional: beyond the quota, and for a client that has disconnected.
func TestCharge(t *testing.T) {
	s := newService(t, Options{})
	s.post("/v1/charge", `{"key":"ann"}`).want(t, 200, plainDecision(true, "login", "2/1m", 2, 1, 1, 0, 60e6, start)).wantHeaders(t, "", "", "")
	s.post("/v1/charge", `{"key":"ann","cost":5}`)
	if got := s.post("/v1/peek", `{"key":"ann"}`).body; !strings.Contains(got, `"allowed":false`) {
		t.Errorf("after 6 of 2 were charged: got %s, want a refusal", got)
	}
}

// Corrections of a charge are made even if the client has disconnected.
func TestCorrectionsOutliveTheClient(t *testing.T) {
	s := newService(t, Options{})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	made := reservationOf(t, s.post("/v1/reserve", `{"policy":"two","key":"ann","cost":3}`).body)
	other := reservationOf(t, s.post("/v1/reserve", `{"policy":"two","key":"bob","cost":3}`).body)
	for _, test := range []struct {
		path, body, key string
		left            int // of the hour's 4
	}{
		{"/v1/settle", `{"policy":"two","reservation":` + made + `,"costs":[1,1]}`, "ann", 3},
		{"/v1/cancel", `{"policy":"two","reservation":` + other + `}`, "bob", 4},
		{"/v1/charge", `{"policy":"two","key":"bob","cost":4}`, "bob", 0},
		{"/v1/refund", `{"policy":"two","key":"bob","cost":2}`, "bob", 2},
	} {
		r := httptest.NewRequestWithContext(gone, "POST", test.path, strings.NewReader(test.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.public.Config.Handler.ServeHTTP(w, r)
		if w.Code >= 300 {
			t.Errorf("%s: got %d %s", test.path, w.Code, w.Body)
		}
		got := s.post("/v1/peek", `{"policy":"two","key":"`+test.key+`"}`).body
		if !strings.Contains(got, fmt.Sprintf(`"quota":4,"window_us":3600000000,"remaining":%d`, test.left)) {
			t.Errorf("%s: want %d left of the hour, got %s", test.path, test.left, got)
		}
	}
}

func TestExplain(t *testing.T) {
	s := newService(t, Options{})
	s.send("GET", "/v1/explain?policy=listed&key=bad&cost=1", "", "").
		want(t, 200, `{"policy":"listed","key":"bad","by":"block_list","allowed":false,"refused":true,"shadow":false,"failure":"local","list":"key:bad"}`)
	s.send("GET", "/v1/explain?policy=listed&key=x&address=192.0.2.7", "", "").
		want(t, 200, `{"policy":"listed","key":"x","by":"block_list","allowed":false,"refused":true,"shadow":false,"failure":"local","list":"192.0.2.0/24"}`)
	s.send("GET", "/v1/explain?key_base64=%2B%2F8%3D&cost=3", "", "").
		want(t, 200, `{"policy":"login","key":"\ufffd\ufffd","by":"limits","allowed":false,"refused":true,"shadow":false,"failure":"local","source":"store","limits":[`+
			`{"limit":"2/1m","allowed":false,"quota":2,"remaining":2,"retry_after_us":null,"reset_after_us":0}]}`)
	for _, c := range []struct{ query, field, detail string }{
		{"", "key", "exactly one of"},
		{"?key=a&key_base64=YQ==", "key", "exactly one of"},
		{"?key=a&key=b", "key", "duplicate"},
		{"?kee=a", "kee", "not a field of this query"},
		{"?key_base64=YQ", "key_base64", "base64"},
		{"?key_base64=YQ%0A==", "key_base64", "base64"},
		{"?key=a&cost=-1", "cost", "whole number"},
		{"?key=a&cost=9007199254740992", "cost", "9007199254740991"},
		{"?key=a&address=1.2.3.4:80", "address", "without a port"},
		{"?key=%zz", "", "invalid query"},
	} {
		s.send("GET", "/v1/explain"+c.query, "", "").wantProblem(t, 400, c.field, c.detail)
	}
}

// Operator paths are not served to clients, nor the other way round. Peek is served to both.
func TestAdminIsSeparate(t *testing.T) {
	s := newService(t, Options{})
	for path, r := range admin {
		if _, both := public[path]; both {
			continue
		}
		s.sendTo(s.public, r.method, path+"?key=k", `{"key":"k"}`, "application/json").wantProblem(t, 404, "", path+" is not on this listener, but on the admin listener (--admin)")
	}
	for path, r := range public {
		if _, both := admin[path]; both {
			continue
		}
		s.sendTo(s.admin, r.method, path, `{"key":"k"}`, "application/json").wantProblem(t, 404, "", path+" is not on this listener, but on the listener for clients (--http)")
	}
}

// A path that others serve on the same listener exists: with another method it is not looked for elsewhere.
func TestOtherMethodsOfOtherPaths(t *testing.T) {
	s := newService(t, Options{})
	for path, allow := range map[string]string{"/v1/seen": "GET, HEAD", "/v1/seen/key": "POST", "/v1/rulings": "GET, HEAD, POST", "/v1/state": "GET, HEAD", "/v1/reset": "POST"} {
		got := s.sendTo(s.admin, "PUT", path, `{}`, "application/json")
		got.wantProblem(t, 405, "", path+" only accepts "+allow)
		if has := got.header.Get("Allow"); has != allow {
			t.Errorf("%s: got Allow %q, want %q", path, has, allow)
		}
	}
}
