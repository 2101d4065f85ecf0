package observe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// The series of an announced limit exist before anything has happened, also beyond MaxLimits, and start at 0. Limits of
// the same name in two namespaces are two series.
func TestAnnounce(t *testing.T) {
	m := newMeter(t)
	st := open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, MaxLimits: 1})
	limit := slidegate.Limit{Name: "a", Quota: 1, Window: time.Hour}
	one, two := kit.Must(adapter.Bind("one", limit))(t), kit.Must(adapter.Bind("two", limit))(t)
	st.Announce([]*store.Limit{one})
	st.Announce([]*store.Limit{two})
	for range 2 {
		if _, _, _, _, _, _, err := st.TakeSingle(t.Context(), one, "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	m.want(
		"decisions limit=a,outcome=admitted,policy=one,source=store,store=memory 1",
		"decisions limit=a,outcome=admitted,policy=two,source=store,store=memory 0",
		"decisions limit=a,outcome=error,policy=one,source=store,store=memory 0",
		"decisions limit=a,outcome=error,policy=two,source=store,store=memory 0",
		"decisions limit=a,outcome=refused,policy=one,source=store,store=memory 1",
		"decisions limit=a,outcome=refused,policy=two,source=store,store=memory 0",
		"errors error.type=canceled,store=memory 0",
		"errors error.type=other,store=memory 0",
		"errors error.type=store,store=memory 0",
		"errors error.type=timeout,store=memory 0",
		"units.given_back limit=a,policy=one,store=memory 0",
		"units.given_back limit=a,policy=two,store=memory 0",
		"units.granted limit=a,policy=one,store=memory 1",
		"units.granted limit=a,policy=two,store=memory 0",
	)
}

// place is a store that only has a place among the layers.
type place struct {
	store.Store
	at layering.Layer
}

func (p place) Layer() layering.Layer { return p.at }
func (p place) Unwrap() store.Store   { return p.Store }
func (p place) Traits() store.Traits  { return store.Traits{Name: "p", MaxCharges: 1, RoundTrips: 1} }

// An announced limit has series for the sources that are usual for it: those of the layers below, and of its failure mode.
func TestAnnouncedSources(t *testing.T) {
	const all = "cached fallback_closed fallback_local fallback_open leased"
	for _, c := range []struct {
		limit string
		mode  store.Mode
		below []layering.Layer
		want  string
	}{
		{"5/1m", 0, nil, ""},
		{"5/1m", 0, []layering.Layer{layering.Refusals}, "cached"},
		{"5/1m", 0, []layering.Layer{layering.Refusals, layering.Failure}, "cached fallback_local"},
		{"5/1m", store.FailOpen, []layering.Layer{layering.Failure}, "fallback_local fallback_open"},
		{"5/1m", store.FailLocal, []layering.Layer{layering.Failure, layering.Lease}, "fallback_local"},
		{"1000/1m lease", store.FailClosed, []layering.Layer{layering.Failure, layering.Lease}, "fallback_closed fallback_local leased"},
	} {
		var below store.Store = newMemory(t, nil)
		for _, at := range c.below {
			below = place{below, at}
		}
		m := newMeter(t)
		st := open(t, below, observe.Options{MeterProvider: m.provider})
		st.Announce([]*store.Limit{kit.Must(adapter.Bind("", slidegate.MustParseLimit(c.limit)))(t).In(c.mode)})
		text := strings.Join(m.counters(), "\n")
		var got []string
		for source := range strings.FieldsSeq(all) {
			if strings.Contains(text, "source="+source+",") {
				got = append(got, source)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s in mode %q over %v: got %q, want %q", c.limit, c.mode, c.below, got, c.want)
		}
	}
}

// Fallbacks returns the number of decisions that each failure mode made, and counts no others.
func TestFallbacks(t *testing.T) {
	var answer rule.Answer
	inner := scripted{decide: func(r *store.Request) error { r.Answers[0] = answer; return nil }}
	st := open(t, inner, observe.Options{MeterProvider: newMeter(t).provider})
	limiter := newLimiter(t, st, slidegate.PerMinute(5))
	for times, flags := range []rule.Flags{
		rule.Leased, rule.FallbackOpen, rule.FallbackClosed, rule.FallbackLocal | rule.Cached, rule.Cached, 0,
	} {
		for i := range 2 * times {
			allowed := i%2 == 0
			answer = rule.Answer{Allowed: allowed, Flags: flags}
			_, _ = limiter.Allow(t.Context(), "k")
			_, _ = limiter.Peek(t.Context(), "k", 1) // a peek is not a decision
		}
	}
	want := [store.Modes]int64{store.FailOpen: 2, store.FailClosed: 4, store.FailLocal: 6}
	if got := st.Fallbacks(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
