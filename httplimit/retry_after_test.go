package httplimit

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"pgregory.net/rapid"
)

// A client that returns after Retry-After, to the second, is admitted: for every algorithm and option, also where refusals
// count, and whatever it did before.
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := slidegate.Limit{
			Quota:        rapid.Int64Range(1, 20).Draw(t, "quota"),
			Window:       time.Duration(rapid.Int64Range(1, 120_000).Draw(t, "window")) * time.Millisecond,
			Algorithm:    rapid.SampledFrom([]rule.Algorithm{slidegate.SlidingWindow, slidegate.SlidingLog, slidegate.FixedWindow, slidegate.TokenBucket}).Draw(t, "algorithm"),
			CountRefused: rapid.Bool().Draw(t, "count refused"),
		}
		if limit.Algorithm == slidegate.SlidingWindow {
			limit.Segments = rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "segments")
			limit.Overlap = rapid.SampledFrom([]rule.Overlap{rule.OverlapUp, slidegate.OverlapDown, slidegate.OverlapWhole}).Draw(t, "overlap")
		}
		if limit.Algorithm == slidegate.SlidingWindow || limit.Algorithm == slidegate.FixedWindow {
			limit.Anchor = rapid.SampledFrom([]rule.Anchor{rule.AnchorClock, slidegate.AnchorFirst}).Draw(t, "anchor")
		}
		cost := int64(1)
		p := newPlay(t, Options{Policies: []Policy{{Cost: func(*http.Request) int64 { return cost }}}}, nil, limit)
		refused := 0
		for range rapid.IntRange(1, 40).Draw(t, "requests") {
			p.clock.Advance(rule.Micros(rapid.Int64Range(0, 2*limit.Window.Microseconds()/limit.Quota).Draw(t, "later")))
			cost = rapid.Int64Range(1, limit.Quota).Draw(t, "cost")
			w := p.from("192.0.2.1")
			if w.Code == 200 {
				continue
			}
			refused++
			seconds, err := strconv.ParseInt(w.Header().Get("Retry-After"), 10, 64)
			if err != nil || seconds < 1 {
				t.Fatalf("got Retry-After %q, want a whole number of seconds, at least 1", w.Header().Get("Retry-After"))
			}
			p.clock.Advance(rule.Micros(seconds * 1e6))
			if again := p.from("192.0.2.1"); again.Code != 200 {
				t.Fatalf("%v: got status %d with %v after the %d seconds of Retry-After, want 200", limit, again.Code, again.Header(), seconds)
			}
		}
		if refused == 0 {
			t.Skip("nothing was refused")
		}
	})
}
