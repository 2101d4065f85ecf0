package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The admission that takes the last unit reports exactly when the next unit is free, for every algorithm.
func TestNextAfterTheLastUnit(t *testing.T) {
	for _, text := range []string{
		"1/1s", "5/1m", "5/1m sliding-window", "5/1m sliding-window segments=6", "5/1m sliding-window overlap=whole", "5/1m sliding-window overlap=down",
		"5/1m sliding-window anchor=first", "5/1m sliding-log", "1/1m sliding-log", "5/1m fixed-window", "5/1m fixed-window anchor=first",
		"5/1m token-bucket", "5/1m token-bucket burst=1", "7/1m token-bucket burst=3", "5/1m sliding-log count-refused",
	} {
		limit := slidegate.MustParseLimit(text)
		capacity := limit.Quota
		if limit.Burst > 0 {
			capacity = limit.Burst
		}
		for _, first := range []int64{1, capacity} { // one by one, and all together
			cost := first
			p := newPlay(t, Options{Policies: []Policy{{Cost: func(*http.Request) int64 { return cost }}}}, nil, limit)
			p.clock.Set(noon + 7_000_001)
			w := p.from("192.0.2.1")
			for cost = 1; w.Code == 200 && p.last().Decision.Remaining > 0; w = p.from("192.0.2.1") {
				p.clock.Set(p.clock.Now() + 11_003)
			}
			p.checkNext(t, fmt.Sprintf("%s, first %d", text, first), w.Header())
		}
	}
}

// checkNext checks that the last event reports when the next unit is free, and the header in whole seconds.
func (p *play) checkNext(t *testing.T, what string, header http.Header) {
	t.Helper()
	event := p.last()
	next := event.Decision.NextAfter
	if !event.Decision.Allowed || next <= 0 {
		t.Errorf("%s: got NextAfter %v of %+v, want a time", what, next, event.Decision)
		return
	}
	seconds := int64((next + time.Second - 1) / time.Second)
	if value := header.Get("RateLimit"); !strings.HasSuffix(value, ";r=0;t="+itoa(seconds)) {
		t.Errorf("%s: got RateLimit %s, want t=%d", what, value, seconds)
	}
	if event.Decision.RetryAfter != 0 {
		t.Errorf("%s: got RetryAfter %v of an admission, want 0", what, event.Decision.RetryAfter)
	}
	at := event.Decision.At + rule.Micros(next.Microseconds())
	for early, want := range map[rule.Micros]int64{1: 0, 0: 1} {
		p.clock.Set(at - early)
		peeked, err := p.limits.PeekRequest(httptest.NewRequest("GET", "/", nil))
		if err != nil || min(1, peeked.Decision.Remaining) != want {
			t.Errorf("%s: %d microseconds before: got %d remaining (%v), want %d", what, early, peeked.Decision.Remaining, err, want)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// All dialects report it, for each of several limits.
func TestNextInHeaders(t *testing.T) {
	for headers, want := range map[Headers]string{
		HeadersIETF: `Ratelimit-Policy: "1/1m";q=1;w=60, "3/1h";q=3;w=3600|Ratelimit: "1/1m";r=0;t=60, "3/1h";r=2`,
		HeadersX:    `X-Ratelimit-Limit: 1|X-Ratelimit-Remaining: 0`,
	} {
		p := newPlay(t, Options{Headers: headers}, nil, slidegate.MustParseLimit("1/1m sliding-log"), slidegate.MustParseLimit("3/1h sliding-log"))
		h := p.from("192.0.2.1").Header()
		got := withoutTimes(h)
		want = strings.ReplaceAll(strings.ReplaceAll(want, `1/1m`, `1/1m sliding-log`), `3/1h`, `3/1h sliding-log`)
		if got != strings.ReplaceAll(want, ";t=60", "") {
			t.Errorf("got fields %s, want %s", got, want)
		}
		if headers == HeadersIETF && !strings.Contains(h.Get("RateLimit"), `r=0;t=60,`) {
			t.Errorf("got RateLimit %s, want t=60", h.Get("RateLimit"))
		}
		if headers == HeadersX && h.Get("X-RateLimit-Reset") != itoa(int64(noon)/1e6+60) {
			t.Errorf("got X-RateLimit-Reset %s, want a minute from now", h.Get("X-RateLimit-Reset"))
		}
	}
}

// The dialects of three fields report when the next unit is free, not when the whole quota is.
func TestNextInThreeFields(t *testing.T) {
	for headers, want := range map[Headers]struct {
		name  string
		value int64
	}{
		HeadersX:       {"X-RateLimit-Reset", int64(noon)/1_000_000 + 60},
		HeadersDraft03: {"RateLimit-Reset", 40},
	} {
		p := newPlay(t, Options{Headers: headers}, nil, slidegate.MustParseLimit("2/1m sliding-log"))
		p.from("192.0.2.1")
		p.clock.Set(noon + 20_000_000)
		if got := p.from("192.0.2.1").Header().Get(want.name); got != itoa(want.value) {
			t.Errorf("got %s %s, want %d: the first unit is free 40 seconds from now, all are in 60", want.name, got, want.value)
		}
	}
}

// No request calls the store twice, whatever headers it writes: the decision contains when the next unit is free.
func TestStoreIsCalledOnce(t *testing.T) {
	for _, headers := range []Headers{HeadersIETF, HeadersX, HeadersNone} {
		for _, policies := range [][]Policy{nil, {{Name: "a", Match: "/"}, {Name: "b", Limits: []slidegate.Limit{slidegate.MustParseLimit("2/1h token-bucket")}}}} {
			calls, requests := 0, 0
			counted := &hookStore{store: newHookStore(t, nil).store, apply: func(context.Context, *store.Request) error { calls++; return nil }}
			p := (&play{t: t}).over(&requestCounter{counted, &requests}, Options{Headers: headers, Policies: policies}, nil, slidegate.MustParseLimit("3/1h sliding-log"))
			for i := range 4 {
				calls, requests = 0, 0
				if p.from("192.0.2.1"); calls != 1 || requests != 1 {
					t.Errorf("headers %d, %d policies: request %d made %d calls to the store with %d requests, want 1 with 1", headers, len(policies), i+1, calls, requests)
				}
			}
		}
	}
}

// requestCounter counts the requests in all batches.
type requestCounter struct {
	*hookStore
	requests *int
}

func (a *requestCounter) Apply(ctx context.Context, batch []store.Request) error {
	*a.requests += len(batch)
	return a.hookStore.Apply(ctx, batch)
}
