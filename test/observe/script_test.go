package observe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var (
	user   = slidegate.Limit{Name: "user", Quota: 3, Window: time.Minute}
	tenant = slidegate.Limit{Name: "tenant", Quota: 5, Window: time.Minute}
)

// Every method is counted, over a store whose clock stands still.
func TestCounts(t *testing.T) {
	still := func() rule.Micros { return noon }
	for name, c := range map[string]struct {
		inner store.Store
		opts  observe.Options
	}{
		"one":   {inner: newMemory(t, still)},
		"timed": {inner: newMemory(t, still), opts: observe.Options{DurationEvery: 1}},
		"batch": {inner: batchOnly{newMemory(t, still)}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t)
			c.opts.MeterProvider = m.provider
			play(t, newLimiter(t, open(t, c.inner, c.opts), user))
			m.want(
				"decisions limit=tenant,outcome=refused,source=store,store=memory 1",
				"decisions limit=user,outcome=admitted,source=store,store=memory 8", // 3 + 1 + 1 + 1 + 1 + 1
				"decisions limit=user,outcome=refused,source=store,store=memory 3",  // 2 + 1
				"units.given_back limit=user,store=memory 3",                        // 2 + 1
				"units.granted limit=tenant,store=memory 4",                         // 2 + 2
				"units.granted limit=user,store=memory 13",                          // 3 + 0 + 3 + 2 + 1 + 2 + 2
			)
		})
	}
}

func play(t *testing.T, limiter *slidegate.Limiter) {
	t.Helper()
	ctx := t.Context()
	must := func(_ slidegate.Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		must(limiter.Allow(ctx, "k1")) // 3 allowed, 2 refused
	}
	must(limiter.AllowN(ctx, "k1", 0))    // allowed, nothing granted
	must(limiter.AllowUpTo(ctx, "k2", 5)) // allowed, 3 granted
	for range 4 {
		must(limiter.Peek(ctx, "k1", 1)) // refused, but it requests nothing
	}
	must(limiter.Refund(ctx, "k1", 2)) // 2 returned
	must(limiter.Refund(ctx, "k1", 5)) // only 1 is left to return
	if err := limiter.Reset(ctx, "k2"); err != nil {
		t.Fatal(err)
	}
	reservation, d, err := limiter.Reserve(ctx, "k3", 2) // allowed, 2 granted
	must(d, err)
	if _, err := limiter.SettleAll(ctx, reservation, 3); err != nil { // 1 more
		t.Fatal(err)
	}
	both := func(key string) {
		t.Helper()
		must(limiter.For(slidegate.Claim{Limit: user, Key: key, Cost: 2}, slidegate.Claim{Limit: tenant, Key: "t", Cost: 2}).
			InGroup("g").Allow(ctx))
	}
	both("k4") // allowed: the user has 1 left, the tenant 3, so the user's limit decides; 2 granted by each
	both("k4") // refused only by the user's limit
	both("k5") // allowed: both have 1 left, so the first decides; 2 granted by each
	both("k6") // refused only by the tenant's limit
}

// An error has a kind, whatever its text. It counts for every operation, and as a decision where units were requested.
func TestErrors(t *testing.T) {
	const secret = "secret-key"
	for _, c := range []struct {
		err  error
		kind string
	}{
		{fmt.Errorf("far: %w", context.DeadlineExceeded), "timeout"},
		{fmt.Errorf("far: %w", os.ErrDeadlineExceeded), "timeout"},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, "timeout"},
		{&net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}, "other"},
		{fmt.Errorf("far: %w", context.Canceled), "canceled"},
		{fmt.Errorf("far: %w: no", store.ErrUnsupported), "store"},
		{errors.New("far: broken at " + secret), "other"},
	} {
		for _, one := range []bool{false, true} {
			m := newMeter(t)
			failing := scripted{decide: func(*store.Request) error { return c.err }}
			var inner store.Store = failing
			if one {
				inner = scriptedOne{failing}
			}
			limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider}), user)
			if _, err := limiter.Allow(t.Context(), secret); err != c.err {
				t.Errorf("Allow: got error %v", err)
			}
			if _, err := limiter.AllowUpTo(t.Context(), secret, 2); err != c.err {
				t.Errorf("AllowUpTo: got error %v", err)
			}
			if _, err := limiter.Refund(t.Context(), secret, 1); err != c.err {
				t.Errorf("Refund: got error %v", err)
			}
			if _, err := limiter.Peek(t.Context(), secret, 1); err != c.err {
				t.Errorf("Peek: got error %v", err)
			}
			two := limiter.For(slidegate.Claim{Limit: tenant, Key: secret, Cost: 1}, slidegate.Claim{Limit: user, Key: secret, Cost: 1})
			if _, err := two.Allow(t.Context()); err != c.err {
				t.Errorf("For: got error %v", err)
			}
			m.want(
				"decisions limit=tenant,outcome=error,source=store,store=scripted 1",
				"decisions limit=user,outcome=error,source=store,store=scripted 2",
				"errors error.type="+c.kind+",store=scripted 5",
			)
			points := m.durations()
			if len(points) != 1 || points[0].Count != 5 || encode(points[0].Attributes) != "error.type="+c.kind+",store=scripted" {
				t.Errorf("got durations %+v", points)
			}
		}
	}
}

// The flags of an answer are counted: the source once, by the answer that decides, the others for each limit.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		flags   rule.Flags
		allowed bool
		source  string
		more    []string
	}{
		{flags: 0, allowed: true, source: "store"},
		{flags: rule.Cached, source: "cached"},
		{flags: rule.Leased, allowed: true, source: "leased"},
		{flags: rule.Leased | rule.Cached, source: "leased"},
		{flags: rule.FallbackOpen, allowed: true, source: "fallback_open"},
		{flags: rule.FallbackClosed, source: "fallback_closed"},
		{flags: rule.FallbackLocal, allowed: true, source: "fallback_local"},
		{flags: rule.FallbackLocal | rule.Cached, source: "fallback_local"},
		{flags: rule.Inherited, source: "store", more: []string{"inherited limit=user,store=scripted 2"}},
		{flags: rule.ClockMoved, allowed: true, source: "store", more: []string{"clock_moved limit=user,store=scripted 2"}},
		{flags: rule.FallbackLocal | rule.Inherited | rule.ClockMoved, source: "fallback_local",
			more: []string{"inherited limit=user,store=scripted 2", "clock_moved limit=user,store=scripted 2"}},
	} {
		for _, one := range []bool{false, true} {
			m := newMeter(t)
			flagging := scripted{decide: func(r *store.Request) error {
				r.Answers[0] = rule.Answer{Allowed: c.allowed, Flags: c.flags}
				if c.allowed {
					r.Answers[0].Granted = r.Charges[0].Cost
				}
				return nil
			}}
			var inner store.Store = flagging
			if one {
				inner = scriptedOne{flagging}
			}
			limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider}), user)
			for range 2 {
				_, _ = limiter.AllowN(t.Context(), "k", 7)
				_, _ = limiter.Peek(t.Context(), "k", 1) // counts nothing
			}
			outcome := "refused"
			if c.allowed {
				outcome = "admitted"
			}
			var want []string
			if len(c.more) == 2 || len(c.more) == 1 && strings.HasPrefix(c.more[0], "clock") {
				want = append(want, c.more[len(c.more)-1]) // they are sorted
			}
			want = append(want, fmt.Sprintf("decisions limit=user,outcome=%s,source=%s,store=scripted 2", outcome, c.source))
			if len(c.more) > 0 && strings.HasPrefix(c.more[0], "inherited") {
				want = append(want, c.more[0])
			}
			if c.allowed && c.flags&rule.FallbackOpen == 0 { // which charges nothing
				want = append(want, "units.granted limit=user,store=scripted 14")
			}
			m.want(want...)
		}
	}
}

// With several limits the source is that of the deciding answer, and each flag counts for its own limit.
func TestFlagsOfSeveralLimits(t *testing.T) {
	m := newMeter(t)
	inner := scripted{decide: func(r *store.Request) error {
		r.Answers[0] = rule.Answer{Allowed: true, Remaining: 1, Flags: rule.Inherited}
		r.Answers[1] = rule.Answer{RetryAfter: 5, Flags: rule.Cached | rule.ClockMoved}
		return nil
	}}
	limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider}), user, tenant)
	_, _ = limiter.Allow(t.Context(), "k")
	m.want(
		"clock_moved limit=tenant,store=scripted 1",
		"decisions limit=tenant,outcome=refused,source=cached,store=scripted 1",
		"inherited limit=user,store=scripted 1",
	)
}

// A batch is one call of the store, and as many decisions as it has requests, some of which may have failed.
func TestBatch(t *testing.T) {
	m := newMeter(t)
	inner := scripted{decide: func(r *store.Request) error {
		if r.Charges[0].Key == "bad" {
			return store.ErrUnsupported
		}
		r.Answers[0] = rule.Answer{Allowed: true, Granted: 1}
		return nil
	}}
	st, limit := open(t, inner, observe.Options{MeterProvider: m.provider}), bind(t, user)
	var batch []store.Request
	for _, key := range []string{"good", "bad", "good"} {
		batch = append(batch, store.Request{
			Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1),
		})
	}
	if err := st.Apply(t.Context(), batch); err != store.ErrUnsupported {
		t.Errorf("got %v, want ErrUnsupported", err)
	}
	if err := st.Apply(t.Context(), batch[:1]); err != nil {
		t.Errorf("Apply returned %v", err)
	}
	m.want(
		"decisions limit=user,outcome=admitted,policy=test,source=store,store=scripted 3",
		"decisions limit=user,outcome=error,policy=test,source=store,store=scripted 1",
		"errors error.type=store,store=scripted 1",
		"units.granted limit=user,policy=test,store=scripted 3",
	)
	counts := map[string]uint64{}
	for _, point := range m.durations() {
		counts[encode(point.Attributes)] = point.Count
	}
	if len(counts) != 2 || counts["error.type=store,store=scripted"] != 1 || counts["store=scripted"] != 1 {
		t.Errorf("got durations %v", counts)
	}
}

// Durations are in seconds, and the buckets distinguish microseconds from seconds.
func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, one := range []bool{false, true} {
			m := newMeter(t)
			var took time.Duration
			slow := scripted{decide: func(*store.Request) error { time.Sleep(took); return nil }}
			var inner store.Store = slow
			if one {
				inner = scriptedOne{slow}
			}
			limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider}), user)
			for _, took = range []time.Duration{time.Microsecond, 3 * time.Microsecond, 2 * time.Millisecond, 250 * time.Millisecond, 7 * time.Second} {
				_, _ = limiter.Allow(t.Context(), "k")
			}
			points := m.durations()
			if len(points) != 1 {
				t.Fatalf("got durations %+v", points)
			}
			p := points[0]
			want := map[int]uint64{0: 1, 2: 1, 10: 1, 16: 1, 21: 1} // up to 1 us, 5 us, 2.5 ms, 250 ms, and beyond 5 s
			for i, n := range p.BucketCounts {
				if n != want[i] {
					t.Errorf("bucket %d of %v: got %d, want %d", i, p.Bounds, n, want[i])
				}
			}
			if p.Count != 5 || p.Sum < 7.252003 || p.Sum > 7.252005 {
				t.Errorf("got %d durations with a sum of %v, want 5 and 7.252004", p.Count, p.Sum)
			}
		}
	})
}

// Names, units and kinds are a contract with dashboards.
func TestNames(t *testing.T) {
	m := newMeter(t)
	inner := scripted{decide: func(r *store.Request) error {
		if r.Op == rule.Reset {
			return store.ErrUnsupported
		}
		r.Answers[0] = rule.Answer{Allowed: true, Granted: 1, Flags: rule.Inherited | rule.ClockMoved}
		return nil
	}}
	limiter := newLimiter(t, open(t, inner, observe.Options{MeterProvider: m.provider}), user)
	_, _ = limiter.Allow(t.Context(), "k")
	_, _ = limiter.Refund(t.Context(), "k", 1)
	_ = limiter.Reset(t.Context(), "k")
	want := map[string]string{
		"slidegate.decisions": "{decision}", "slidegate.units.granted": "{unit}", "slidegate.units.given_back": "{unit}",
		"slidegate.inherited": "{answer}", "slidegate.clock_moved": "{answer}", "slidegate.errors": "{request}",
		"slidegate.decision.duration": "s",
	}
	scopes := m.collect().ScopeMetrics
	if len(scopes) != 1 || scopes[0].Scope.Name != "github.com/slidegate/slidegate/layer/observe" || len(scopes[0].Metrics) != len(want) {
		t.Fatalf("got scopes %+v", scopes)
	}
	for _, metric := range scopes[0].Metrics {
		if unit, ok := want[metric.Name]; !ok || metric.Unit != unit || metric.Description == "" {
			t.Errorf("%s has the unit %q and the description %q", metric.Name, metric.Unit, metric.Description)
		}
		if sum, ok := metric.Data.(metricdata.Sum[int64]); ok && !sum.IsMonotonic {
			t.Errorf("%s is not a counter", metric.Name)
		}
	}
}

// A reader with delta temporality gets differences.
func TestDelta(t *testing.T) {
	reader := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(sdkmetric.DeltaTemporalitySelector))
	m := &meter{t, reader, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
	limiter := newLimiter(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider}), slidegate.PerHour(100))
	for n := range 3 {
		for range n + 1 {
			_, _ = limiter.Allow(t.Context(), "k")
		}
		m.want(
			fmt.Sprintf("decisions limit=100/1h,outcome=admitted,source=store,store=memory %d", n+1),
			fmt.Sprintf("units.granted limit=100/1h,store=memory %d", n+1),
		)
	}
}

// Without a provider the global one is used, even if it is set later. It can be set only once in a process: when the
// test runs again, it was set before.
func TestGlobalProvider(t *testing.T) {
	name := fmt.Sprint("run", globalRuns.Add(1))
	limiter := newLimiter(t, open(t, newMemory(t, nil), observe.Options{DurationEvery: 1, Name: name}), user)
	_, _ = limiter.Allow(t.Context(), "k")
	m := globalMeter(t)
	_, _ = limiter.Allow(t.Context(), "k")
	m.want("decisions limit=user,outcome=admitted,source=store,store="+name+" 2", "units.granted limit=user,store="+name+" 2")
	for _, point := range m.durations() {
		if encode(point.Attributes) == "store="+name && point.Count >= 1 { // before, there was no reader
			return
		}
	}
	t.Errorf("got durations %+v", m.durations())
}

var (
	globalRuns  atomic.Int64
	globalSet   sync.Once
	globalFirst *meter
)

func globalMeter(t *testing.T) *meter {
	globalSet.Do(func() {
		globalFirst = newMeter(t)
		otel.SetMeterProvider(globalFirst.provider)
	})
	return &meter{t, globalFirst.reader, globalFirst.provider}
}
