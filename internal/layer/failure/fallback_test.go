package failure_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// bucket holds 5 units, ten is a window of 10.
var (
	bucket = slidegate.Limit{Name: "bucket", Algorithm: slidegate.TokenBucket, Quota: 100, Burst: 5, Window: time.Hour}
	ten    = slidegate.Limit{Name: "ten", Quota: 10, Window: time.Hour}
)

// FailOpen and FailClosed: every field of the answer to each operation.
func TestOpenAndClosed(t *testing.T) {
	const probe = 1_000_000
	fits, never := rule.Answer{Allowed: true}, rule.Answer{RetryAfter: rule.Never}
	granted := func(n int64) rule.Answer { return rule.Answer{Allowed: true, Granted: n} }
	later := rule.Answer{RetryAfter: probe}
	for _, c := range []struct {
		op           rule.Op
		ofTen        int64 // the costs for the window of 10 and for the bucket of 5
		ofBucket     int64
		open, closed [2]rule.Answer
	}{
		{rule.Take, 10, 5, [2]rule.Answer{granted(10), granted(5)}, [2]rule.Answer{later, later}},
		{rule.Take, 0, 1, [2]rule.Answer{granted(0), granted(1)}, [2]rule.Answer{later, later}},
		{rule.Take, 10, 6, [2]rule.Answer{fits, never}, [2]rule.Answer{later, never}},
		{rule.Take, 11, 5, [2]rule.Answer{never, fits}, [2]rule.Answer{never, later}},
		{rule.TakeUpTo, 11, 11, [2]rule.Answer{granted(5), granted(5)}, [2]rule.Answer{later, later}},
		{rule.TakeUpTo, 3, 11, [2]rule.Answer{granted(3), granted(3)}, [2]rule.Answer{later, later}},
		{rule.Peek, 10, 5, [2]rule.Answer{fits, fits}, [2]rule.Answer{later, later}},
		{rule.Peek, 11, 5, [2]rule.Answer{never, fits}, [2]rule.Answer{never, later}},
	} {
		for mode, want := range map[store.Mode][2]rule.Answer{store.FailOpen: c.open, store.FailClosed: c.closed} {
			synctest.Test(t, func(t *testing.T) {
				inner := newRemote(t)
				inner.fail(errDown)
				st := newStore(t, inner, mode, failure.Options{})
				for range 2 { // when the store fails, and during the outage
					batch := []store.Request{request(c.op,
						store.Charge{Limit: bind(t, ten), Key: "k", Cost: c.ofTen}, store.Charge{Limit: bind(t, bucket), Key: "k", Cost: c.ofBucket})}
					if err := st.Apply(t.Context(), batch); err != nil {
						t.Fatal(err)
					}
					for i := range want {
						want[i].Flags, want[i].At = modes[mode], rule.Micros(-time.Now().UnixMicro())
					}
					if got := [2]rule.Answer(batch[0].Answers); got != want {
						t.Errorf("op %d, %d and %d:\n got  %+v\n want %+v", c.op, c.ofTen, c.ofBucket, got, want)
					}
				}
				if n := inner.callsSinceCheck(); n != 1 {
					t.Errorf("got %d calls", n)
				}
			})
		}
	}
}

// TakeSingle answers as Apply does, in every mode, and a refusal lasts until the next probe.
func TestTakeSingleFallback(t *testing.T) {
	for mode, flag := range modes {
		synctest.Test(t, func(t *testing.T) {
			inner := newRemote(t)
			inner.fail(errDown)
			limit := bind(t, ten)
			one := newStore(t, inner, mode, failure.Options{})
			batch := newStore(t, inner, mode, failure.Options{})
			testkit.Delay(3 * time.Microsecond)
			for i, cost := range []int64{3, 0, 8, 7, 11, 1, 10} {
				charge := store.Charge{Limit: limit, Key: "k", Cost: cost}
				got, err := ways["TakeSingle"](t.Context(), one, charge)
				want, err2 := ways["Apply"](t.Context(), batch, charge)
				marked := got.At < 0 && want.At < 0
				got.At, _ = answering.Unmark(got.At)
				want.At, _ = answering.Unmark(want.At)
				if err != nil || err2 != nil || !marked || got != want || got.Flags != flag || got.At != rule.Micros(time.Now().UnixMicro()) {
					t.Errorf("flag %d, step %d, cost %d: TakeSingle got %+v, %v, want what Apply got, with the flag and a marked time: %+v, %v",
						flag, i, cost, got, err, want, err2)
				}
				if left := rule.Micros(1_000_000 - 1000*i); flag == rule.FallbackClosed && cost <= 10 && got.RetryAfter != left {
					t.Errorf("step %d: refused for %dus, the probe is due in %d", i, got.RetryAfter, left)
				}
				if cost > 10 && (got.Allowed || got.RetryAfter != rule.Never) {
					t.Errorf("flag %d: 11 of 10: got %+v", flag, got)
				}
				testkit.Delay(time.Millisecond)
			}
		})
	}
}

// OnFallback and errors contain the reason, but never a key.
func TestOnFallback(t *testing.T) {
	for mode, flag := range modes {
		inner := newRemote(t)
		inner.fail(errDown)
		type call struct {
			op  rule.Op
			err string
		}
		var got []call
		type mark struct{}
		st := newStore(t, inner, mode, failure.Options{OnFallback: func(ctx context.Context, by store.Mode, op rule.Op, err error) {
			if by != mode || ctx.Value(mark{}) == nil || !errors.Is(err, errDown) || !errors.Is(err, failure.ErrUnavailable) {
				t.Errorf("OnFallback got %v", err)
			}
			got = append(got, call{op, err.Error()})
		}})
		ctx := context.WithValue(t.Context(), mark{}, true)
		charge := store.Charge{Limit: bind(t, ten), Key: "secret", Cost: 1}
		for _, way := range []string{"Apply", "TakeSingle", "Apply"} {
			if _, err := ways[way](ctx, st, charge); err != nil {
				t.Fatal(err)
			}
		}
		peek := []store.Request{request(rule.Peek, charge)}
		if err := st.Apply(ctx, peek); err != nil {
			t.Fatal(err)
		}
		const text = "failure: store unavailable: remote: connection refused: the store is down: not carried out"
		want := []call{{rule.Take, text}, {rule.Take, text}, {rule.Take, text}, {rule.Peek, text}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("flag %d:\n got  %v\n want %v", flag, got, want)
		}
		expect(t, st, failure.Stats{Fallbacks: by(mode, 4), Failures: 1, Outages: 1, Down: true})
	}
}

// With Instances, the fallback uses a share of each limit, rounded up, and nothing else about the limit changes.
func TestInstances(t *testing.T) {
	for _, c := range []struct {
		limit     slidegate.Limit
		instances int
		share     int64
	}{
		{slidegate.PerHour(10), 0, 10},
		{slidegate.PerHour(10), 1, 10},
		{slidegate.PerHour(10), 2, 5},
		{slidegate.PerHour(10), 3, 4},
		{slidegate.PerHour(10), 11, 1},
		{slidegate.PerHour(150), 2, 75}, // in parts as a whole, and a log in its share
		{slidegate.PerHour(rule.MaxQuota), 2, 1 << 52},
		{bucket, 2, 3},
		{slidegate.Limit{Algorithm: slidegate.TokenBucket, Quota: 9, Window: time.Hour}, 2, 5},
		{slidegate.Limit{Algorithm: slidegate.SlidingLog, Quota: 9, Window: time.Hour}, 4, 3},
		// The bucket takes five years to fill; a burst of 2 at a third of the rate would take longer, so it is 1.
		{slidegate.Limit{Algorithm: slidegate.TokenBucket, Quota: 2, Burst: 3, Window: time.Duration(rule.MaxWindow) / 3 * 2 * time.Microsecond}, 2, 1},
	} {
		inner, memory := newRemote(t), newMemory(t)
		st := newStore(t, inner, store.FailLocal, failure.Options{Local: memory, Instances: c.instances})
		limit := bind(t, c.limit)
		if err := st.Check(limit); err != nil {
			t.Errorf("%v for %d: %v", c.limit, c.instances, err)
			continue
		}
		inner.fail(errDown)
		for name, way := range ways {
			charge := store.Charge{Limit: limit, Key: name, Cost: c.share}
			if a, err := way(t.Context(), st, charge); err != nil || !a.Allowed || a.Remaining != 0 {
				t.Errorf("%v for %d, %s: %d are %+v, %v", c.limit, c.instances, name, c.share, a, err)
			}
			// A cost that only the whole limit admits is not impossible: the store will decide.
			charge.Cost++
			a, err := way(t.Context(), st, charge)
			whole := charge.Cost <= limit.Rule().Capacity()
			retries := a.RetryAfter == rule.Never
			if whole {
				retries = a.RetryAfter > 0 && a.RetryAfter <= 1_000_000
			}
			if err != nil || a.Allowed || !retries {
				t.Errorf("%v for %d, %s: %d are %+v, %v, want a refusal, of at most a second: %v", c.limit, c.instances, name, charge.Cost, a, err, whole)
			}
			// The state has the address of the limit itself.
			if a, err := apply(t, memory, rule.Peek, store.Charge{Limit: limit, Key: name}); err != nil || a.Remaining >= limit.Rule().Capacity() ||
				c.limit.Algorithm != slidegate.TokenBucket && a.Remaining != c.limit.Quota-c.share { // buckets refill at another rate
				t.Errorf("%v for %d, %s: the fallback has %d left, %v", c.limit, c.instances, name, a.Remaining, err)
			}
		}
	}
}

// Shares stay distinct even if there are more limits than are remembered.
func TestSharesStayDistinct(t *testing.T) {
	inner := newRemote(t)
	inner.fail(errDown)
	st := newStore(t, inner, store.FailLocal, failure.Options{Local: newMemory(t), Instances: 2})
	var limits []*store.Limit
	for i := range int64(3000) {
		limits = append(limits, bind(t, slidegate.Limit{Name: fmt.Sprint(i), Quota: 2*i + 2, Window: time.Hour}))
	}
	for round := range int64(2) {
		for i, limit := range limits {
			a, err := apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "k", Cost: 1})
			if left := max(0, int64(i)-round); err != nil || a.Remaining != left || a.Allowed != (int64(i) >= round) {
				t.Fatalf("round %d, share of %d: got %+v, %v, want Remaining %d", round, i+1, a, err, left)
			}
		}
	}
}

// Where the fallback fails too, the caller gets both errors, and errors.Is finds both.
func TestFallbackFails(t *testing.T) {
	inner, second := newRemote(t), newRemote(t)
	second.noTrips = true
	errSecond := errors.New("second: out of order")
	inner.fail(errDown)
	second.fail(errSecond)
	st := newStore(t, inner, store.FailLocal, failure.Options{Local: second, OnFallback: func(context.Context, store.Mode, rule.Op, error) {
		t.Error("OnFallback was called for a fallback that did not answer")
	}})
	charge := store.Charge{Limit: bind(t, ten), Key: "secret", Cost: 1}
	for name, way := range ways {
		_, err := way(t.Context(), st, charge)
		if !errors.Is(err, errDown) || !errors.Is(err, errSecond) || !errors.Is(err, failure.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want ErrUnavailable of both stores' errors, without the key", name, err)
		}
	}
	if _, err := apply(t, st, rule.Reset, charge); !errors.Is(err, errDown) || !errors.Is(err, errSecond) {
		t.Errorf("reset: %v", err)
	}
	expect(t, st, failure.Stats{Undecided: 3, Failures: 1, Outages: 1, Down: true})
	inner.heal()
	fresh := newStore(t, inner, store.FailLocal, failure.Options{Local: second})
	if _, err := apply(t, fresh, rule.Reset, charge); !errors.Is(err, errSecond) {
		t.Errorf("a reset that failed in the fallback: %v", err)
	}
}

// A store without round trips is called every time, without a deadline, and still has a mode.
func TestWithoutRoundTrips(t *testing.T) {
	for mode, flag := range modes {
		for name, way := range ways {
			inner := newRemote(t)
			inner.noTrips = true
			st := newStore(t, inner, mode, failure.Options{})
			inner.do(func(ctx context.Context, batch []store.Request) error {
				if _, ok := ctx.Deadline(); ok {
					t.Error("got a deadline for a store in memory")
				}
				return batches.FailAll(batch, errDown)
			})
			charge := store.Charge{Limit: bind(t, ten), Key: name, Cost: 1}
			for range 3 {
				if a, err := way(t.Context(), st, charge); err != nil || a.Flags != flag || inner.callsSinceCheck() != 1 || !a.Allowed && a.RetryAfter != 1_000_000 {
					t.Errorf("flag %d, %s: got %+v, %v, want that flag, after one call", flag, name, a, err)
				}
			}
			expect(t, st, failure.Stats{Fallbacks: by(mode, 3), Failures: 3})
			inner.heal()
			if a, err := way(t.Context(), st, charge); err != nil || a.Flags != 0 {
				t.Errorf("flag %d, %s: got %+v, %v, want no flags", flag, name, a, err)
			}
		}
	}
}
