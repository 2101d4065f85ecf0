package observe_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Only MaxLimits limits have their own series, however many there are, and no count is lost.
func TestMaxLimits(t *testing.T) {
	m := newMeter(t)
	limiter := newPerCall(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, MaxLimits: 2}))
	for range 3 {
		for _, name := range []string{"b", "a", "c", "other", "d"} {
			limit := slidegate.Limit{Name: name, Quota: 2, Window: time.Hour}
			_, _ = limiter.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 1}).Allow(t.Context())
		}
	}
	m.want(
		"decisions limit=a,outcome=admitted,source=store,store=memory 2",
		"decisions limit=a,outcome=refused,source=store,store=memory 1",
		"decisions limit=b,outcome=admitted,source=store,store=memory 2",
		"decisions limit=b,outcome=refused,source=store,store=memory 1",
		"decisions limit=other,outcome=admitted,source=store,store=memory 6",
		"decisions limit=other,outcome=refused,source=store,store=memory 3",
		"units.granted limit=a,store=memory 2",
		"units.granted limit=b,store=memory 2",
		"units.granted limit=other,store=memory 6",
	)
}

// A limit that is really named "other" is counted with those beyond MaxLimits.
func TestLimitNamedOther(t *testing.T) {
	m := newMeter(t)
	limiter := newPerCall(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, MaxLimits: 1}))
	for _, name := range []string{"other", "a"} {
		limit := slidegate.Limit{Name: name, Quota: 2, Window: time.Hour}
		_, _ = limiter.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 1}).Allow(t.Context())
	}
	m.want("decisions limit=other,outcome=admitted,source=store,store=memory 2", "units.granted limit=other,store=memory 2")
}

// Limits of the same name are one series, whatever their quota. Limits beyond those that are remembered by their ID are
// all found again.
func TestLimitsOfOneNameAreOneSeries(t *testing.T) {
	m := newMeter(t)
	st := open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider})
	const limits = 3000
	var bound []*store.Limit
	for i := range limits {
		bound = append(bound, bind(t, slidegate.Limit{Name: []string{"a", "b", "c"}[i%3], Quota: int64(i + 1), Window: time.Hour}))
	}
	for range 2 {
		for _, limit := range bound {
			if _, _, _, _, _, _, err := st.TakeSingle(t.Context(), limit, "k", 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.want(
		"decisions limit=a,outcome=admitted,policy=test,source=store,store=memory 2000",
		"decisions limit=b,outcome=admitted,policy=test,source=store,store=memory 2000",
		"decisions limit=c,outcome=admitted,policy=test,source=store,store=memory 2000",
	)
}

// With the default the SDK has space for every combination of a limit.
func TestDefaultFitsTheSDK(t *testing.T) {
	m := newMeter(t)
	var answer rule.Answer
	var failure error
	inner := scripted{decide: func(r *store.Request) error { r.Answers[0] = answer; return failure }}
	limiter := newPerCall(t, open(t, inner, observe.Options{MeterProvider: m.provider}))
	apply := func(a rule.Answer, err error) {
		answer, failure = a, err
		for i := range 300 {
			limit := slidegate.Limit{Name: fmt.Sprint("limit ", i), Quota: 2, Window: time.Hour}
			_, _ = limiter.For(slidegate.Claim{Limit: limit, Key: "k", Cost: 1}).Allow(t.Context())
		}
	}
	apply(rule.Answer{}, errors.New("down"))
	for _, flags := range []rule.Flags{0, rule.FallbackOpen, rule.FallbackLocal} {
		apply(rule.Answer{Allowed: true, Granted: 1, Flags: flags | rule.Inherited | rule.ClockMoved}, nil)
	}
	for _, flags := range []rule.Flags{0, rule.Cached, rule.FallbackClosed, rule.FallbackLocal} {
		apply(rule.Answer{Flags: flags}, nil)
	}
	lines := m.counters()
	if want := 201 * (8 + 3); len(lines) != want+1 {
		t.Errorf("got %d series, want %d and one of errors", len(lines), want)
	}
	for _, line := range lines {
		if strings.Contains(line, "overflow") {
			t.Errorf("the SDK had no space: %s", line)
		}
	}
	if !slices.Contains(lines, "decisions limit=other,outcome=error,source=store,store=scripted 100") {
		t.Errorf("got no series for the 100 of 300 limits beyond the maximum")
	}
}

// A name may be any bytes; an exporter would send nothing at all if it got invalid ones.
func TestNamesWithInvalidUTF8(t *testing.T) {
	m := newMeter(t)
	limiter := newLimiter(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider}),
		slidegate.Limit{Name: "a\xff\xfeb", Quota: 2, Window: time.Hour})
	_, _ = limiter.AllowN(t.Context(), "k", 3)
	m.want("decisions limit=a\uFFFDb,outcome=refused,source=store,store=memory 1")
}

// No key and no group is in anything that is exported, whatever the store does: random requests
// over a store that also fails, with the key in its error.
func TestNoKeyIsExported(t *testing.T) {
	limits := []slidegate.Limit{user, tenant, slidegate.PerSecond(2)}
	rapid.Check(t, func(rt *rapid.T) {
		m := newMeter(t)
		memory := newMemory(t, nil)
		inner := scripted{decide: func(r *store.Request) error {
			if strings.HasSuffix(r.Charges[0].Key, "fails") {
				return fmt.Errorf("no answer for %s in %s", r.Charges[0].Key, r.Group)
			}
			return memory.Apply(context.Background(), []store.Request{*r})
		}}
		opts := observe.Options{MeterProvider: m.provider}
		store := open(t, inner, opts)
		limiter := newLimiter(t, store, user)
		var secrets []string
		for range rapid.IntRange(1, 20).Draw(rt, "requests") {
			key := string(rapid.SliceOfN(rapid.Byte(), 8, 40).Draw(rt, "key"))
			group := rapid.StringMatching(`[a-z0-9]{12}`).Draw(rt, "group")
			secrets = append(secrets, key, group)
			if rapid.Bool().Draw(rt, "fails") {
				key += "fails"
			}
			claim := slidegate.Claim{Limit: rapid.SampledFrom(limits).Draw(rt, "limit"), Key: key, Cost: rapid.Int64Range(0, 4).Draw(rt, "cost")}
			apply := limiter.For(claim).InGroup(group)
			switch rapid.IntRange(0, 3).Draw(rt, "verb") {
			case 0:
				_, _ = apply.Allow(context.Background())
			case 1:
				_, _ = limiter.Allow(context.Background(), key)
			case 2:
				_, _ = apply.Refund(context.Background())
			case 3:
				_, _ = apply.Peek(context.Background())
			}
		}
		collected := m.collect()
		exported, err := json.Marshal(collected)
		if err != nil {
			rt.Fatal(err)
		}
		everything := string(exported) + fmt.Sprintf("%+v", collected) + strings.Join(m.counters(), "\n")
		if !strings.Contains(everything, "slidegate.") {
			rt.Fatalf("nothing was exported: %s", everything)
		}
		for _, secret := range secrets {
			for _, spelled := range []string{
				secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(fmt.Sprintf("%q", secret), `"`),
			} {
				if strings.Contains(everything, spelled) {
					rt.Fatalf("%q was exported or printed", secret)
				}
			}
		}
		_ = store.Close()
	})
}

// Counts are exact under concurrency, including collections.
func TestConcurrent(t *testing.T) {
	const workers, each = 8, 3000
	second := sdkmetric.NewManualReader()
	m := newMeter(t, sdkmetric.WithReader(second))
	store := open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, MaxLimits: 3, DurationEvery: 1})
	limiter := newLimiter(t, store, slidegate.Limit{Name: "hot", Quota: 1000, Window: time.Hour})
	var working, reading sync.WaitGroup
	done := make(chan struct{})
	for _, reader := range []*meter{m, {t, second, m.provider}} {
		reading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					reader.collect()
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			for i := range each {
				_, _ = limiter.Allow(context.Background(), "k")
				limit := slidegate.Limit{Name: fmt.Sprint("cold ", (w+i)%9), Quota: 1, Window: time.Hour}
				cold, err := limiter.With(limit)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = cold.AllowN(context.Background(), "k", 0)
			}
		})
	}
	working.Wait()
	close(done)
	reading.Wait()
	lines := m.counters()
	for _, want := range []string{
		"decisions limit=hot,outcome=admitted,source=store,store=memory 1000",
		"decisions limit=hot,outcome=refused,source=store,store=memory 23000",
		"units.granted limit=hot,store=memory 1000",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("got no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	var cold int64
	for _, line := range lines {
		var n int64
		if !strings.Contains(line, "limit=hot") {
			_, _ = fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
			cold += n
		}
	}
	if cold != workers*each || len(lines) != 6 {
		t.Errorf("got %d decisions by the other limits, in\n%s", cold, strings.Join(lines, "\n"))
	}
	if points := m.durations(); len(points) != 1 || points[0].Count != 2*workers*each {
		t.Errorf("got durations %+v", points)
	}
}

// Two stores on one provider: with different names they are distinguished, with the same name they add up.
func TestStoresAreDistinguishedByName(t *testing.T) {
	m := newMeter(t)
	for _, name := range []string{"near", "far", "near", ""} {
		limiter := newLimiter(t, open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider, Name: name}), user)
		_, _ = limiter.AllowN(t.Context(), "k", 4)
	}
	m.want(
		"decisions limit=user,outcome=refused,source=store,store=far 1",
		"decisions limit=user,outcome=refused,source=store,store=memory 1",
		"decisions limit=user,outcome=refused,source=store,store=near 2",
	)
}

// After Close nothing is reported, and everything still works.
func TestNothingIsReportedAfterClose(t *testing.T) {
	m := newMeter(t)
	store := open(t, newMemory(t, nil), observe.Options{MeterProvider: m.provider})
	limiter := newLimiter(t, store, user)
	_, _ = limiter.Allow(t.Context(), "k")
	m.want("decisions limit=user,outcome=admitted,source=store,store=memory 1", "units.granted limit=user,store=memory 1")
	for range 2 {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	m.want()
	if d, err := limiter.Allow(t.Context(), "k"); err != nil || d.Remaining != 1 {
		t.Errorf("after Close: got %+v, %v, want Remaining 1", d, err)
	}
}
