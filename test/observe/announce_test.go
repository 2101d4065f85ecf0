package observe_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// The series of an announced limit exist before anything has happened, also beyond MaxLimits, and start at 0. Limits of
// the same name in two namespaces are two series, and an ignored limit is in none.
func TestAnnounce(t *testing.T) {
	m := newMeter(t)
	st := open(t, newMemory(t, nil), observe.Options{
		MeterProvider: m.provider, MaxLimits: 1, FallbackClosed: "fallback_error",
		Sources: []rule.Flags{rule.FallbackClosed},
		Policy:  func(l *store.Limit) (string, bool) { return l.Namespace(), l.Namespace() != "tried" },
	})
	limit := slidegate.Limit{Name: "a", Quota: 1, Window: time.Hour}
	one, two := kit.Must(slidegate.Bind("one", limit))(t), kit.Must(slidegate.Bind("two", limit))(t)
	ignored := kit.Must(slidegate.Bind("tried", limit))(t)
	st.Announce([]*store.Limit{one, ignored})
	st.Announce([]*store.Limit{two})
	for _, limit := range []*store.Limit{one, one, ignored} {
		if _, _, _, _, _, _, err := st.TakeSingle(t.Context(), limit, "k", 1); err != nil {
			t.Fatal(err)
		}
	}
	m.want(
		"decisions limit=a,policy=one,source=fallback_error,store=memory,verdict=allowed 0",
		"decisions limit=a,policy=one,source=fallback_error,store=memory,verdict=refused 0",
		"decisions limit=a,policy=one,source=store,store=memory,verdict=allowed 1",
		"decisions limit=a,policy=one,source=store,store=memory,verdict=error 0",
		"decisions limit=a,policy=one,source=store,store=memory,verdict=refused 1",
		"decisions limit=a,policy=two,source=fallback_error,store=memory,verdict=allowed 0",
		"decisions limit=a,policy=two,source=fallback_error,store=memory,verdict=refused 0",
		"decisions limit=a,policy=two,source=store,store=memory,verdict=allowed 0",
		"decisions limit=a,policy=two,source=store,store=memory,verdict=error 0",
		"decisions limit=a,policy=two,source=store,store=memory,verdict=refused 0",
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

// Fallbacks returns the number of decisions that a failure policy made, and counts no others.
func TestFallbacks(t *testing.T) {
	var answer rule.Answer
	inner := scripted{decide: func(r *store.Request) error { r.Answers[0] = answer; return nil }}
	st := open(t, inner, observe.Options{MeterProvider: newMeter(t).provider})
	limiter := newLimiter(t, st, slidegate.PerMinute(5))
	for _, flags := range []rule.Flags{
		0, rule.Cached, rule.FallbackOpen, rule.FallbackClosed, rule.FallbackLocal | rule.Cached, rule.FallbackOptimistic, rule.Leased,
	} {
		for _, allowed := range []bool{true, false} {
			answer = rule.Answer{Allowed: allowed, Flags: flags}
			_, _ = limiter.Allow(t.Context(), "k")
			_, _ = limiter.Peek(t.Context(), "k") // a peek is not a decision
		}
	}
	if got := st.Fallbacks(); got != 4*2 {
		t.Errorf("got %d, want two decisions of each of four failure policies", got)
	}
}
