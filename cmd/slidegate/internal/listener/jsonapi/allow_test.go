package jsonapi

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
)

// Two per minute, counted one by one: each is free again a minute after it was taken.
func TestAllowOne(t *testing.T) {
	s := newService(t, Options{})
	const policy = `"2/1m";q=2;w=60`
	req := `{"policy":"login","key":"ann","cost":1}`
	s.post("/v1/allow", req).want(t, 200, plainDecision(true, "login", "2/1m", 2, 1, 1, 0, 60e6, start)).
		wantHeaders(t, `"2/1m";r=1;t=60`, policy, "")
	s.post("/v1/allow", `{"key":"ann"}`).want(t, 200, plainDecision(true, "login", "2/1m", 2, 0, 1, 0, 60e6, start)).
		wantHeaders(t, `"2/1m";r=0;t=60`, policy, "") // the last unit, and when the next is free
	refused := s.post("/v1/allow", req).want(t, 429, plainDecision(false, "login", "2/1m", 2, 0, 0, 60e6, 60e6, start))
	refused.wantHeaders(t, `"2/1m";r=0;t=60`, policy, "60")
	if got := refused.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: got %q, want \"no-store\"", got)
	}
	s.add(time.Microsecond)
	s.post("/v1/allow", req).want(t, 429, plainDecision(false, "login", "2/1m", 2, 0, 0, 60e6-1, 60e6-1, start+1)).
		wantHeaders(t, `"2/1m";r=0;t=60`, policy, "60") // rounded up
	s.add(time.Second)
	s.post("/v1/allow", req).wantHeaders(t, `"2/1m";r=0;t=59`, policy, "59")
	s.clock.Set(start + 60e6)
	s.post("/v1/allow", req).want(t, 200, plainDecision(true, "login", "2/1m", 2, 1, 1, 0, 60e6, start+60e6)).
		wantHeaders(t, `"2/1m";r=1;t=60`, policy, "")
}

// limitJSON returns an entry of limits.
func limitJSON(name string, allowed bool, quota, window, remaining int64, retry string, reset int64) string {
	return fmt.Sprintf(`{"limit":%q,"allowed":%v,"quota":%d,"window_us":%d,"remaining":%d,"retry_after_us":%s,"reset_after_us":%d,"flags":[]}`,
		name, allowed, quota, window, remaining, retry, reset)
}

// 3 per second and 4 per hour, requested at the beginning of an hour.
func TestAllowSeveralLimits(t *testing.T) {
	s := newService(t, Options{})
	const policy = `"burst";q=3;w=1, "hour";q=4;w=3600`
	with := func(decision string, limits ...string) string {
		return strings.TrimSuffix(decision, "}") + `,"limits":[` + strings.Join(limits, ",") + `]}`
	}
	req := `{"policy":"two","key":"ann","cost":2}`
	s.post("/v1/allow", req).want(t, 200, with(plainDecision(true, "two", "burst", 3, 1, 2, 0, 1e6, start),
		limitJSON("burst", true, 3, 1e6, 1, "0", 1e6), limitJSON("hour", true, 4, 3600e6, 2, "0", 3600e6))).
		wantHeaders(t, `"burst";r=1;t=1, "hour";r=2;t=3600`, policy, "")
	s.add(500 * time.Millisecond)
	s.post("/v1/allow", req).want(t, 429, with(plainDecision(false, "two", "burst", 3, 1, 0, 5e5, 5e5, start+5e5),
		limitJSON("burst", false, 3, 1e6, 1, "500000", 5e5), limitJSON("hour", true, 4, 3600e6, 2, "0", 3600e6-5e5))).
		wantHeaders(t, `"burst";r=1;t=1, "hour";r=2;t=3600`, policy, "1")
	s.add(500 * time.Millisecond)
	s.post("/v1/allow", req).want(t, 200, with(plainDecision(true, "two", "hour", 4, 0, 2, 0, 3599e6, start+1e6),
		limitJSON("burst", true, 3, 1e6, 1, "0", 1e6), limitJSON("hour", true, 4, 3600e6, 0, "0", 3599e6))).
		wantHeaders(t, `"burst";r=1;t=1, "hour";r=0;t=3599`, policy, "")
	s.post("/v1/allow", `{"policy":"two","key":"ann"}`).wantHeaders(t, `"burst";r=1;t=1, "hour";r=0;t=3599`, policy, "3599")
	never := s.post("/v1/allow", `{"policy":"two","key":"bob","cost":5}`)
	never.wantHeaders(t, `"burst";r=3, "hour";r=4`, policy, "")
	if never.status != 429 || strings.Count(never.body, `"retry_after_us":null`) != 3 {
		t.Errorf("got %d %s, want 429 and three times retry_after_us null", never.status, never.body)
	}
}

// A request whose turn would come after the time that it may wait is refused at once.
func TestAllowWaits(t *testing.T) {
	s := newService(t, Options{})
	s.post("/v1/allow", `{"key":"ann","cost":2,"wait_us":1000000}`).want(t, 200, plainDecision(true, "login", "2/1m", 2, 0, 2, 0, 60e6, start))
	for i := range 50 { // a wait that is over before the store could be asked is none
		if got := s.post("/v1/allow", fmt.Sprintf(`{"key":"free %d","wait_us":1}`, i)); got.status != 200 {
			t.Fatalf("a free key: got %d %s, want 200", got.status, got.body)
		}
	}
	s.post("/v1/allow", `{"key":"ann","wait_us":1000000}`).want(t, 429, plainDecision(false, "login", "2/1m", 2, 0, 0, 60e6, 60e6, start))
	for body, want := range map[string]string{
		`{"key":"ann","wait_us":-1}`:                     "wait_us",
		`{"key":"ann","wait_us":3600000001}`:             "wait_us",
		`{"key":"ann","wait_us":1,"up_to":true}`:         "cannot be combined with up_to",
		`{"requests":[{"key":"ann","wait_us":1000000}]}`: "cannot be used in a batch",
	} {
		if got := s.post("/v1/allow", body); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %s, want 400 and %q", body, got.status, got.body, want)
		}
	}
}

func TestAllowUpTo(t *testing.T) {
	s := newService(t, Options{})
	s.post("/v1/allow", `{"key":"ann","cost":5,"up_to":true}`).want(t, 200, plainDecision(true, "login", "2/1m", 2, 0, 2, 0, 60e6, start))
	s.post("/v1/allow", `{"key":"bob","cost":5,"up_to":false}`).wantHeaders(t, `"2/1m";r=2`, `"2/1m";q=2;w=60`, "")
}

// Lists, policies in shadow mode and failure modes are named in the decision, and limits that did not decide are not
// reported.
func TestDecisionNamesItsSource(t *testing.T) {
	s := newService(t, Options{})
	listed := func(allowed bool, granted int, retry, by string) string {
		return fmt.Sprintf(`{"allowed":%v,"policy":"listed","limit":"","quota":0,"remaining":0,"granted":%d,"retry_after_us":%s,"reset_after_us":0,`+
			`"at_us":0,"by":%q,"flags":[],"shadow":false,"refused":%v}`, allowed, granted, retry, by, !allowed)
	}
	s.post("/v1/allow", `{"policy":"listed","key":"good","cost":3}`).want(t, 200, listed(true, 3, "0", "allow_list")).wantHeaders(t, "", "", "")
	s.post("/v1/allow", `{"policy":"listed","key":"vip","cost":3}`).want(t, 200, listed(true, 3, "0", "unlimited")).wantHeaders(t, "", "", "")
	s.post("/v1/allow", `{"policy":"listed","key":"bad"}`).want(t, 429, listed(false, 0, "null", "block_list")).wantHeaders(t, "", "", "")
	s.post("/v1/allow", `{"policy":"listed","key":"good","address":"192.0.2.9"}`).want(t, 429, listed(false, 0, "null", "block_list"))

	s.post("/v1/allow", `{"policy":"watch","key":"w"}`)
	s.post("/v1/allow", `{"policy":"watch","key":"w"}`).want(t, 200, `{"allowed":true,"policy":"watch","limit":"1/1h fixed-window","quota":1,`+
		`"remaining":0,"granted":1,"retry_after_us":0,"reset_after_us":3600000000,"at_us":1800000000000000,"by":"limits","flags":[],`+
		`"shadow":true,"refused":true}`).wantHeaders(t, "", "", "")
	s.post("/v1/allow", `{"policy":"named","key":"n"}`).wantHeaders(t, `"gruen\"";r=0;t=60`, `"gruen\"";q=1;w=60`, "")

	s.fail(errBroken)
	open := s.post("/v1/allow", `{"policy":"open","key":"k"}`)
	if open.wantHeaders(t, "", "", ""); open.status != 200 || !strings.Contains(open.body, `"flags":["fallback_open"]`) ||
		!strings.Contains(open.body, `"remaining":null`) { // not 0, which would mean that nothing is left
		t.Errorf("got %d %s, want 200 with the flag fallback_open and remaining null", open.status, open.body)
	}
	closed := s.post("/v1/allow", `{"policy":"closed","key":"k"}`)
	if closed.wantHeaders(t, "", "", "1"); closed.status != 503 || !strings.Contains(closed.body, "#temporary-reduced-capacity") {
		t.Errorf("got %d %s, want 503 with the problem type temporary-reduced-capacity", closed.status, closed.body)
	}
}

func TestBatch(t *testing.T) {
	s := newService(t, Options{})
	fixed := func(allowed bool, granted, retry int64) string {
		return strings.TrimPrefix(plainDecision(allowed, "open", "1/1h fixed-window", 1, 0, granted, retry, 3600e6, start), "{")
	}
	_, err := s.gate.Do(t.Context(), gate.Peek, gate.Request{Policy: "logn"})
	unknown := strconv.Quote(err.Error())
	before := s.store.applies.Load()
	got := s.post("/v1/allow", `{"requests":[{"policy":"open","key":"a"},{"policy":"logn","key":"a"},{"policy":"open","key":"a","cost":1},
		{"policy":"listed","key":"bad"},{"policy":"open","key_base64":"Yg=="}]}`)
	got.want(t, 200, `{"results":[{"status":200,`+fixed(true, 1, 0)+`,{"status":404,"error":`+unknown+`},{"status":429,`+fixed(false, 0, 3600e6)+`,{"status":429,"allowed":false,`+
		`"policy":"listed","limit":"","quota":0,"remaining":0,"granted":0,"retry_after_us":null,"reset_after_us":0,"at_us":0,"by":"block_list",`+
		`"flags":[],"shadow":false,"refused":true},{"status":200,`+fixed(true, 1, 0)+`]}`)
	got.wantHeaders(t, "", "", "")
	if n := s.store.applies.Load() - before; n != 1 {
		t.Errorf("got %d calls to the store, want 1", n)
	}
	s.fail(errBroken)
	s.post("/v1/allow", `{"requests":[{"key":"a"}]}`).want(t, 200, `{"results":[{"status":503,"error":"the store could not answer, and it is not `+
		`known whether anything was charged; try again later"}]}`)
	s.fail(nil)
	full := `{"requests":[` + strings.TrimSuffix(strings.Repeat(`{"key":"full"},`, MaxBatch), ",") + `]}`
	large := s.post("/v1/allow", full)
	if n := strings.Count(large.body, `"status":200`); large.status != 200 || n != 2 || strings.Count(large.body, `"status":429`) != MaxBatch-2 {
		t.Errorf("got %d, and %d of a batch admitted; want 200 and 2", large.status, n)
	}
	if large.header.Get("Content-Length") != fmt.Sprint(len(large.body)) {
		t.Errorf("got Content-Length %q for %d bytes", large.header.Get("Content-Length"), len(large.body))
	}
}

// Each decision of a batch names its own policy and limit, however similar they are.
func TestBatchOfLikePolicies(t *testing.T) {
	s := newService(t, Options{})
	got := s.post("/v1/allow", `{"requests":[{"policy":"open","key":"a"},{"policy":"closed","key":"a"},{"policy":"closed","key":"b"},`+
		`{"policy":"listed","key":"x"},{"policy":"listed","key":"minute"},{"policy":"open","key":"b"},{"key":"b"},{"key":"b"}]}`)
	const hour, minute = `"limit":"1/1h fixed-window","quota":1`, `"limit":"1/1m fixed-window","quota":1`
	want := []string{`"policy":"open",` + hour, `"policy":"closed",` + hour, `"policy":"closed",` + hour, `"policy":"listed",` + hour,
		`"policy":"listed",` + minute, `"policy":"open",` + hour, `"policy":"login","limit":"2/1m","quota":2,"remaining":1`,
		`"policy":"login","limit":"2/1m","quota":2,"remaining":0`}
	results := strings.Split(got.body, `{"status":200,`)[1:]
	if len(results) != len(want) {
		t.Fatalf("got %d results, want %d: %s", len(results), len(want), got.body)
	}
	for i := range want {
		if !strings.Contains(results[i], want[i]+",") && !strings.Contains(results[i], want[i]+`,"granted"`) {
			t.Errorf("result %d: got %s, want %s", i, results[i], want[i])
		}
	}
}

// A key that is retained is not overwritten by later requests, which reuse the memory.
func TestKeysAreCopied(t *testing.T) {
	s := newService(t, Options{})
	s.store.keeps.Store(true)
	for _, body := range []string{`{"key":"the first key"}`, `{"requests":[{"key":"another"},{"key":"the first key"}]}`} {
		newRepeatedRequest(t, s.api.Handler(), body).serve()
		kept := s.store.last.Load()
		for range 3 {
			newRepeatedRequest(t, s.api.Handler(), strings.ReplaceAll(body, "the first", "some later")).serve()
		}
		if *kept != "the first key" {
			t.Errorf("%s: the retained key became %q", body, *kept)
		}
	}
}

// The memory of requests is reused: concurrent requests must not see each other's keys.
func TestConcurrentRequests(t *testing.T) {
	s := newService(t, Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				key := fmt.Sprintf("key-%d-%d", g, i)
				body := fmt.Sprintf(`{"policy":"open","key":%q}`, key)
				if i%2 == 1 {
					body = fmt.Sprintf(`{"requests":[{"policy":"open","key":%q},{"policy":"open","key":"%s-too"}]}`, key, key)
				}
				for try, want := range []string{`"allowed":true`, `"allowed":false`} {
					if got := s.post("/v1/allow", body); strings.Count(got.body, want) != 1+i%2 {
						t.Errorf("try %d of %s: got %s, want %s", try, key, got.body, want)
					}
				}
			}
		})
	}
	wg.Wait()
}
