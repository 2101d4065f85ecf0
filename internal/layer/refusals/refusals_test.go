package refusals_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var forever = refusals.Options{MaxAge: -1}

func TestOptions(t *testing.T) {
	inner := admitAll{}
	store := layered(t, inner, refusals.Options{MaxKeys: 1})
	if store.Traits() != inner.Traits() {
		t.Errorf("got traits %+v, want those of the inner store, %+v", store.Traits(), inner.Traits())
	}
}

// TestRefusedFromMemory shows what the layer is for, in numbers worked out by hand.
func TestRefusedFromMemory(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 1)
		r.take(limit, "key", 1)
		r.pass(10 * time.Second)
		r.wantAnswer(r.take(limit, "key", 1), rule.Answer{
			RetryAfter: 50 * second, ResetAfter: 50 * second, At: epoch + 10*second,
		}, "refused by the store")
		r.wantCalls(3, "up to the refusal")
		r.pass(20 * time.Second)
		cached := rule.Answer{
			Flags: rule.Cached, RetryAfter: 30 * second, ResetAfter: 30 * second, At: epoch + 30*second,
		}
		r.wantAnswer(r.take(limit, "key", 1), cached, "refused from memory")
		r.wantAnswer(r.do(rule.Peek, limit, "key", 1), cached, "a peek")
		r.wantAnswer(r.take(limit, "key", 2), cached, "a higher cost")
		cached.RetryAfter = rule.Never
		r.wantAnswer(r.take(limit, "key", 3), cached, "a cost above the quota")
		r.wantCalls(0, "remembered")
		r.take(limit, "other", 1)
		r.wantCalls(1, "another key")
		r.clock.Set(epoch + 60*second - 1)
		if a := r.take(limit, "key", 1); a.Allowed || a.RetryAfter != 1 {
			r.t.Fatalf("a microsecond before the retry time: got %+v, want refused, RetryAfter 1", a)
		}
		r.wantCalls(0, "a microsecond before the retry time")
		r.clock.Set(epoch + 60*second)
		if a := r.take(limit, "key", 1); !a.Allowed || a.Flags != 0 {
			r.t.Fatalf("at the retry time: got %+v, want allowed, no flags", a)
		}
		r.wantCalls(1, "at the retry time")
		if got, want := r.store.Stats(), (refusals.Stats{Hits: 5, Misses: 5, Entries: 1}); got != want {
			r.t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestPeekIsRemembered checks that a take uses the refusal of a peek.
func TestPeekIsRemembered(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 2)
		r.do(rule.Peek, limit, "key", 1)
		r.wantCalls(2, "up to the refusal")
		if a := r.take(limit, "key", 1); a.Allowed || a.Flags != rule.Cached {
			r.t.Fatalf("after a peek: got %+v, want refused, the flag Cached", a)
		}
		r.wantCalls(0, "after a peek")
	})
}

// TestRefusalDoesNotApplyToLowerCost checks that the refusal of a cost does not apply to a lower cost, whose own refusal then covers both.
func TestRefusalDoesNotApplyToLowerCost(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 1)
		r.take(limit, "key", 2) // refused
		r.wantCalls(2, "up to the refusal")
		if a := r.take(limit, "key", 1); !a.Allowed {
			r.t.Fatalf("a lower cost: got %+v, want allowed", a)
		}
		r.wantCalls(1, "a lower cost")
		r.take(limit, "key", 2)
		r.wantCalls(0, "the higher cost again")
		r.take(limit, "key", 1) // refused
		r.wantCalls(1, "the lower cost again")
		r.take(limit, "key", 1)
		r.take(limit, "key", 2)
		r.wantCalls(0, "both again")
	})
}

// TestOverdrawn checks that an overdrawn key refuses even a cost of 0, and that this is remembered too.
func TestOverdrawn(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := fixed(r.t)
		r.do(rule.Charge, limit, "key", 5)
		r.take(limit, "key", 0)
		r.wantCalls(2, "up to the refusal")
		for _, cost := range []int64{0, 1, 2} {
			if a := r.take(limit, "key", cost); a.Allowed || a.RetryAfter != 60*second {
				r.t.Fatalf("cost %d: got %+v, want refused, RetryAfter 60s", cost, a)
			}
		}
		r.do(rule.Charge, limit, "key", 1)
		r.take(limit, "key", 1)
		r.wantCalls(1, "only the charge: it can only lengthen the wait")
	})
}

// TestNotRemembered covers requests that must always reach the store.
func TestNotRemembered(t *testing.T) {
	counts := slidegate.Limit{Name: "fixed", Quota: 2, Window: time.Minute, Algorithm: slidegate.FixedWindow, CountRefused: true}
	long := strings.Repeat("k", 2000)
	for _, test := range []struct {
		name  string
		limit slidegate.Limit
		key   string
		op    rule.Op
		cost  int64
		twist func(*rule.Answer)
	}{
		{name: "refused requests count", limit: counts, key: "key", op: rule.Take, cost: 1},
		{name: "peek where refused requests count", limit: counts, key: "key", op: rule.Peek, cost: 1},
		{name: "never", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.Take, cost: 3},
		{name: "up to", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.TakeUpTo, cost: 1},
		{name: "a long key", limit: adapter.Unbind(fixed(t)), key: long, op: rule.Take, cost: 1},
		{name: "no time to retry", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.Take, cost: 1,
			twist: func(a *rule.Answer) { a.RetryAfter = 0 }},
		{name: "inherited", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.Take, cost: 1,
			twist: func(a *rule.Answer) { a.Flags |= rule.Inherited }},
		{name: "clock moved", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.Peek, cost: 1,
			twist: func(a *rule.Answer) { a.Flags |= rule.ClockMoved }},
		{name: "fallback", limit: adapter.Unbind(fixed(t)), key: "key", op: rule.Take, cost: 1,
			twist: func(a *rule.Answer) { a.Flags |= rule.FallbackClosed }},
	} {
		t.Run(test.name, func(t *testing.T) {
			rigs(t, forever, func(r *rig) {
				limit := bound(r.t, test.limit)
				r.take(limit, test.key, 2)
				r.spy.twist = test.twist
				take := func() rule.Answer {
					if test.op == rule.Take {
						return r.take(limit, test.key, test.cost)
					}
					return r.do(test.op, limit, test.key, test.cost)
				}
				for range 3 {
					if a := take(); a.Allowed || a.Flags&rule.Cached != 0 {
						r.t.Fatalf("not refused by the store: %+v", a)
					}
				}
				r.wantCalls(4, "each time")
				if got := r.store.Stats().Entries; got != 0 {
					r.t.Fatalf("got %d entries, want 0", got)
				}
			})
		})
	}
}

// TestErrorIsNotARefusal checks that an error of the store is not taken for a refusal of the key, and is returned
// unchanged.
func TestErrorIsNotARefusal(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit, wrong := fixed(r.t), errors.New("no answer")
		r.take(limit, "key", 2)
		broken := layered(r.t, failingStore{r.spy, wrong}, forever)
		if r.one {
			broken = layered(r.t, failingTaker{failingStore{r.spy, wrong}}, forever)
		}
		for range 2 {
			if a, err := takeOne(broken, limit, "key", 1); err != wrong || a.Allowed {
				r.t.Fatalf("got %+v, %v, want the store's error", a, err)
			}
			charge := store.Charge{Limit: limit, Key: "key", Cost: 1}
			if _, err := apply(context.Background(), broken, rule.Take, "", charge); err != wrong {
				r.t.Fatal(err)
			}
		}
		if got := broken.Stats().Entries; got != 0 {
			r.t.Fatalf("got %d entries, want 0", got)
		}
	})
}

// failingStore decides, and then returns an error.
type failingStore struct {
	store.Store
	err error
}

func (f failingStore) Apply(ctx context.Context, batch []store.Request) error {
	f.Store.Apply(ctx, batch)
	for i := range batch {
		batch[i].Err = f.err
	}
	return f.err
}

// failingTaker is a failing SingleTaker, whose other results look like a refusal.
type failingTaker struct{ failingStore }

func (f failingTaker) TakeSingle(context.Context, *store.Limit, string, int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return false, 0, 0, second, second, epoch, f.err
}

// TestPlanUpgrade checks that a limit of the same address with another quota, burst or overlap is another limit.
func TestPlanUpgrade(t *testing.T) {
	small := slidegate.Limit{Name: "plan", Quota: 2, Window: time.Minute, Algorithm: slidegate.SlidingWindow}
	bucket := slidegate.Limit{Name: "plan", Quota: 2, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: 2}
	with := func(l slidegate.Limit, change func(*slidegate.Limit)) slidegate.Limit {
		change(&l)
		return l
	}
	for _, test := range []struct {
		name            string
		before, after   slidegate.Limit
		admitsInHalfWay bool
	}{
		{"quota", small, with(small, func(l *slidegate.Limit) { l.Quota = 3 }), true},
		{"burst", bucket, with(bucket, func(l *slidegate.Limit) { l.Burst = 3 }), true},
		{"overlap", small, with(small, func(l *slidegate.Limit) { l.Overlap = slidegate.OverlapDown }), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			rigs(t, forever, func(r *rig) {
				before, after := bound(r.t, test.before), bound(r.t, test.after)
				r.take(before, "key", 2)
				r.take(before, "key", 1) // refused
				r.wantCalls(2, "up to the refusal")
				if a := r.take(after, "key", 1); a.Allowed != test.admitsInHalfWay {
					r.t.Fatalf("by the new limit: got %+v, want allowed %t", a, test.admitsInHalfWay)
				}
				r.wantCalls(1, "by the new limit")
				if test.before.Algorithm == slidegate.TokenBucket { // one plan may shorten the wait that another reported
					if a := r.take(before, "key", 1); a.Allowed || a.Flags != 0 {
						r.t.Fatalf("by the old limit of a bucket: got %+v, want refused, no flags", a)
					}
					r.wantCalls(1, "by the old limit of a bucket")
					return
				}
				if a := r.take(before, "key", 1); a.Allowed || a.Flags != rule.Cached {
					r.t.Fatalf("by the old limit: got %+v, want refused, the flag Cached", a)
				}
				// The same limit again, as another limiter of this process binds it.
				if a := r.take(bound(r.t, test.before), "key", 1); a.Allowed || a.Flags != rule.Cached {
					r.t.Fatalf("by the old limit, bound again: got %+v, want refused, the flag Cached", a)
				}
				r.wantCalls(0, "by the old limit")
			})
		})
	}
}

// TestAddresses checks that every part of an address distinguishes requests, and where one part ends and the next
// begins does too.
func TestAddresses(t *testing.T) {
	r := newRig(t, refusals.Options{MaxAge: -1, MaxKeys: 1}, true) // one bucket for all
	limit := slidegate.Limit{Name: "a", Quota: 1, Window: time.Hour}
	type address struct{ namespace, name, group, key string }
	addresses := []address{
		{"", "a", "", "ab"}, {"", "a", "a", "b"}, {"", "a", "ab", ""},
		{"a", "a", "", "ab"}, {"", "aa", "", "b"}, {"", "a", "", "ab\x00"},
	}
	for i, x := range addresses {
		limit.Name = x.name
		b, err := adapter.Bind(x.namespace, limit)
		if err != nil {
			t.Fatal(err)
		}
		charge := store.Charge{Limit: b, Key: x.key, Cost: 1}
		for n := range 3 {
			if a := r.several(rule.Take, x.group, charge)[0]; a.Allowed != (n == 0) || (a.Flags == rule.Cached) != (n == 2) {
				t.Fatalf("address %d, take %d: got %+v, want allowed %t, Cached %t", i, n, a, n == 0, n == 2)
			}
		}
	}
}

// TestKeysAreCopied checks that callers may reuse the memory of a key, as some web frameworks do.
func TestKeysAreCopied(t *testing.T) {
	r := newRig(t, forever, true)
	limit := fixed(t)
	bytes := []byte("mine")
	key := unsafe.String(&bytes[0], len(bytes))
	group := []byte("team")
	r.take(limit, key, 2)
	r.take(limit, key, 1)
	r.several(rule.Take, unsafe.String(&group[0], 4), store.Charge{Limit: limit, Key: key, Cost: 2})
	r.several(rule.Take, unsafe.String(&group[0], 4), store.Charge{Limit: limit, Key: key, Cost: 1})
	r.one = true
	r.take(limit, key, 1)
	r.wantCalls(4, "until the memory is reused")
	copy(bytes, "your")
	copy(group, "club")
	if a := r.take(limit, "mine", 1); a.Flags != rule.Cached {
		t.Fatalf("the refused key: got %+v, want the flag Cached", a)
	}
	charge := store.Charge{Limit: limit, Key: "mine", Cost: 1}
	if a := r.several(rule.Take, "team", charge)[0]; a.Flags != rule.Cached {
		t.Fatalf("the refused key, in its group: got %+v, want the flag Cached", a)
	}
	r.wantCalls(0, "the refused keys")
}

func TestMaxAge(t *testing.T) {
	rigs(t, refusals.Options{MaxAge: 3 * time.Second}, func(r *rig) {
		limit := fixed(r.t)
		r.take(limit, "key", 2)
		r.take(limit, "key", 1)
		r.wantCalls(2, "up to the refusal")
		r.pass(3*time.Second - time.Microsecond)
		r.take(limit, "key", 1)
		r.wantCalls(0, "just before it is too old")
		r.pass(time.Microsecond)
		r.take(limit, "key", 1)
		r.wantCalls(1, "when it is too old")
		r.pass(time.Second)
		r.take(limit, "key", 1)
		r.wantCalls(0, "after the store was called again")
	})
}

// TestDelayedCallerGetsNoOldRefusal checks that a refusal is not used by a goroutine that read its clock before the store was called and was
// then delayed: whether the refusal held at that time is unknown.
func TestDelayedCallerGetsNoOldRefusal(t *testing.T) {
	now := 10 * time.Second
	opts := forever
	opts.Now = func() time.Duration { return now }
	r := newRig(t, opts, true)
	limit := fixed(t)
	r.take(limit, "key", 2)
	r.take(limit, "key", 1)
	r.wantCalls(2, "up to the refusal")
	now -= time.Nanosecond
	r.take(limit, "key", 1)
	r.wantCalls(1, "just before it")
}

// TestDefaultAge checks that with no options a refusal is remembered for a second, by the real monotonic clock, and that
// a reset by another process is seen after that.
func TestDefaultAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memstore.New(memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		here, err := slidegate.New(layered(t, inner, refusals.Options{}), slidegate.PerHour(1))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := slidegate.New(inner, slidegate.PerHour(1))
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		allowed := func() bool {
			d, err := here.Allow(ctx, "key")
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		}
		if !allowed() || allowed() {
			t.Fatal("want one of two admitted")
		}
		if err := elsewhere.Reset(ctx, "key"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second - time.Nanosecond)
		if allowed() {
			t.Fatal("the reset by another process was seen, so nothing was remembered")
		}
		time.Sleep(time.Nanosecond)
		if !allowed() {
			t.Fatal("the reset by another process was not seen after a second")
		}
	})
}

// TestMaxKeys checks that memory is bounded, and that the refusal that ends first is replaced.
func TestMaxKeys(t *testing.T) {
	r := newRig(t, refusals.Options{MaxAge: -1, MaxKeys: 7}, true)
	r.one = true
	refuse := func(hours int, key string) *store.Limit { // for that many hours
		limit := bound(t, slidegate.Limit{
			Quota: 1, Window: time.Duration(hours) * time.Hour, Anchor: slidegate.AnchorFirst, Algorithm: slidegate.FixedWindow,
		})
		r.take(limit, key, 1)
		r.take(limit, key, 1)
		return limit
	}
	var limits []*store.Limit
	for _, n := range []int{5, 3, 6, 2, 7, 4, 8} {
		limits = append(limits, refuse(n, "key"))
	}
	r.spy.requests.Store(0)
	for _, limit := range limits {
		r.take(limit, "key", 1)
	}
	r.wantCalls(0, "as many as there is space for")
	limits = append(limits, refuse(9, "key"))
	r.spy.requests.Store(0)
	if got := r.store.Stats().Entries; got != 7 {
		t.Fatalf("got %d entries, want 7", got)
	}
	for i, limit := range limits {
		if i != 3 { // the one of two hours
			r.take(limit, "key", 1)
		}
	}
	r.wantCalls(0, "those that end later")
	r.take(limits[3], "key", 1)
	r.wantCalls(1, "the one that ended first")
	for n := range 1000 {
		refuse(10, fmt.Sprint(n))
	}
	if got := r.store.Stats().Entries; got != 7 {
		t.Fatalf("got %d entries, want 7", got)
	}
}

// TestOneCallPerPeriod checks that a client that hammers a key costs the store one call until its time to retry.
func TestOneCallPerPeriod(t *testing.T) {
	rigs(t, forever, func(r *rig) {
		limit := bound(r.t, slidegate.Limit{Quota: 6, Window: time.Minute, Algorithm: slidegate.TokenBucket, Burst: 1})
		admitted := 0
		for range 600 { // a minute, ten times a second: one unit is refilled every ten seconds
			if r.take(limit, "key", 1).Allowed {
				admitted++
			}
			r.pass(100 * time.Millisecond)
		}
		if admitted != 6 {
			r.t.Fatalf("got %d admitted, want 6", admitted)
		}
		r.wantCalls(12, "each admission, and one refusal after it")
	})
}
