package refusals_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// kinds returns limits of every algorithm, small enough for a few units to matter.
func kinds() []slidegate.Limit {
	return []slidegate.Limit{
		{Quota: 6, Window: time.Second},
		{Quota: 6, Window: time.Second, Algorithm: slidegate.SlidingWindow},
		{Quota: 6, Window: time.Second, Overlap: slidegate.OverlapDown, Anchor: slidegate.AnchorFirst},
		{Quota: 6, Window: time.Second, Overlap: slidegate.OverlapWhole, Segments: 4},
		{Quota: 6, Window: time.Second, Segments: 5, Anchor: slidegate.AnchorFirst},
		{Quota: 6, Window: time.Second, Algorithm: slidegate.SlidingLog},
		{Quota: 6, Window: time.Second, Algorithm: slidegate.FixedWindow},
		{Quota: 6, Window: time.Second, Algorithm: slidegate.TokenBucket},
		{Quota: 7, Window: time.Second, Algorithm: slidegate.TokenBucket, Burst: 3},
	}
}

// twinStores are two stores with the same history, one of them under the layer.
type twinStores struct {
	t            *rapid.T
	clock        *storetest.Clock
	plain, below *memstore.Store
	store        *refusals.Store
	limits       [][]*store.Limit // limits of one row share their addresses
	lastRetry    rule.Micros      // the last time to retry
	refused      []store.Request  // the last refused requests, which are repeated
	hits         *int
}

func newTwinStores(t *rapid.T, tb testing.TB, hits *int) *twinStores {
	w := &twinStores{t: t, clock: storetest.NewClock(epoch), hits: hits}
	w.plain, w.below = memory(tb, w.clock), memory(tb, w.clock)
	w.store = layered(tb, w.below, refusals.Options{
		MaxAge:  rapid.SampledFrom([]time.Duration{-1, -1, 300 * time.Millisecond}).Draw(t, "age"),
		MaxKeys: rapid.SampledFrom([]int{0, 1, 14}).Draw(t, "keys"),
		Now:     local(w.clock),
	})
	for i := range 2 {
		limit := rapid.SampledFrom(append(kinds(), slidegate.Limit{Quota: 3, Window: time.Second, Algorithm: rule.InFlight})).Draw(t, "limit")
		limit.Name = fmt.Sprint(i)
		larger, counting := limit, limit
		larger.Quota += 3
		if limit == (slidegate.Limit{Name: limit.Name, Quota: 6, Window: time.Second}) {
			larger.Quota += rule.DefaultLog // which turns logs into parts
		}
		counting.CountRefused = limit.Algorithm != rule.InFlight
		counting.Quota -= 2
		w.limits = append(w.limits, []*store.Limit{bound(tb, limit), bound(tb, larger), bound(tb, counting)})
	}
	return w
}

// move moves the clock: mostly by little, and often to the promised time, or just before it.
func (w *twinStores) move() {
	by := rule.Micros(rapid.Int64Range(0, 50_000).Draw(w.t, "by"))
	switch rapid.IntRange(0, 9).Draw(w.t, "move") {
	case 0, 1, 2:
		by = 0
	case 3, 4:
		if w.lastRetry > 0 && w.lastRetry < rule.Never {
			by = w.lastRetry
		}
	case 5:
		if w.lastRetry > 0 && w.lastRetry < rule.Never {
			by = w.lastRetry - 1
		}
	case 6:
		by = 1_000_000
	}
	w.clock.Advance(by)
}

// again draws a request that was refused before, at about the same costs.
func (w *twinStores) again() store.Request {
	r := w.refused[len(w.refused)-1-rapid.IntRange(0, min(len(w.refused)-1, 3)).Draw(w.t, "which")]
	r.Charges = slices.Clone(r.Charges)
	r.Answers = make([]rule.Answer, len(r.Charges))
	for i := range r.Charges {
		c := &r.Charges[i]
		if c.Limit.Rule().Algorithm != rule.InFlight {
			c.Cost = max(0, c.Cost+rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(w.t, "more"))
		}
	}
	return r
}

// request draws a request over one or two limits.
func (w *twinStores) request() store.Request {
	if len(w.refused) > 0 && rapid.IntRange(0, 9).Draw(w.t, "again") > 2 {
		return w.again()
	}
	r := store.Request{
		Op: rapid.SampledFrom([]rule.Op{
			rule.Take, rule.Take, rule.Take, rule.Take, rule.Take, rule.Take,
			rule.Take, rule.Peek, rule.TakeUpTo, rule.Charge, rule.GiveBack, rule.Reset, rule.Settle, rule.Renew,
		}).Draw(w.t, "op"),
		ID:    rule.ID(rapid.IntRange(1, 20).Draw(w.t, "id")),
		Group: rapid.SampledFrom([]string{"", "", "", "g"}).Draw(w.t, "group"),
	}
	first := rapid.IntRange(0, 1).Draw(w.t, "first")
	n := rapid.SampledFrom([]int{1, 1, 2}).Draw(w.t, "charges")
	for i := range n {
		variants := w.limits[(first+i)%2]
		variant := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2}).Draw(w.t, "variant")
		r.Charges = append(r.Charges, store.Charge{
			Limit: variants[variant],
			Key:   rapid.SampledFrom([]string{"a", "a", "b"}).Draw(w.t, "key"),
			Cost:  rapid.SampledFrom([]int64{0, 1, 1, 1, 2, 2, 3, 5, 6, 7, 10}).Draw(w.t, "cost"),
			Used:  rapid.Int64Range(0, 3).Draw(w.t, "used"),
			At:    rapid.SampledFrom([]rule.Micros{rule.Oldest, w.clock.Now(), w.clock.Now() - 1000}).Draw(w.t, "at"),
		})
		if c := &r.Charges[i]; c.Limit.Rule().Algorithm == rule.InFlight {
			c.Cost = min(c.Cost, 1)
		}
	}
	r.Answers = make([]rule.Answer, n)
	return r
}

// TestSameVerdicts checks that the layer refuses what the store would refuse and nothing else, and that its time to retry
// is never later than the true one. What it does not answer itself must equal the store's answer in every field, which
// also shows that both stores hold the same state.
func TestSameVerdicts(t *testing.T) {
	hits := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newTwinStores(rt, t, &hits)
		for range 200 {
			w.move()
			var batch []store.Request
			for range rapid.SampledFrom([]int{1, 1, 1, 4}).Draw(rt, "batch") {
				batch = append(batch, w.request())
			}
			w.play(batch)
		}
	})
	if hits < least(1000) {
		t.Fatalf("only %d answers came from memory: too few for the test to mean anything", hits)
	}
}

// play sends a batch through the layer, or TakeSingle where possible, and to the twin one by one.
func (w *twinStores) play(batch []store.Request) {
	w.t.Helper()
	r := &batch[0]
	single := len(batch) == 1 && len(r.Charges) == 1 && r.Group == "" && r.Op == rule.Take
	if single && rapid.Bool().Draw(w.t, "one") {
		r.ID = 0
		c := r.Charges[0]
		r.Answers[0], r.Err = takeOne(w.store, c.Limit, c.Key, c.Cost)
	} else if err := w.store.Apply(context.Background(), batch); err != nil {
		w.t.Fatal(err)
	}
	for i := range batch {
		r := &batch[i]
		truth, err := send(context.Background(), w.plain, *r)
		if err != nil || r.Err != nil {
			w.t.Fatalf("got error %v from the twin and %v from the layer, want none", err, r.Err)
		}
		w.compare(r, truth)
	}
}

func (w *twinStores) compare(r *store.Request, truth []rule.Answer) {
	w.t.Helper()
	index, allowed := answering.Deciding(r.Answers)
	if _, want := answering.Deciding(truth); allowed != want {
		w.t.Fatalf("%v: got allowed %v\n got  %+v\n want %+v", r.Op, allowed, r.Answers, truth)
	}
	w.lastRetry = r.Answers[index].RetryAfter
	if !allowed && (r.Op == rule.Take || r.Op == rule.Peek) {
		w.refused = append(w.refused, *r)
	}
	if r.Answers[0].Flags&rule.Cached != 0 {
		*w.hits++
	}
	for i, got := range r.Answers {
		want := truth[i]
		if r.Answers[0].Flags&rule.Cached == 0 {
			if got != want {
				w.t.Fatalf("op %v, by the store:\n got  %+v\n want %+v", r.Op, got, want)
			}
			continue
		}
		if broken := brokenFromMemory(r.Charges[i], got, want); broken != "" {
			w.t.Fatalf("op %v, from memory:\n got   %+v\n store %+v\n want %s", r.Op, got, want, broken)
		}
	}
}

// brokenFromMemory returns the rule that an answer from memory breaks, compared with the true answer, or "".
func brokenFromMemory(c store.Charge, got, truth rule.Answer) string {
	never := got.RetryAfter == rule.Never
	switch {
	case got.Flags != rule.Cached || got.Granted != 0:
		return "the flag Cached and nothing granted"
	case got.At != truth.At:
		return "the store's time"
	case !got.Allowed && truth.Allowed:
		return "no refusal of what the store admits"
	case (got.RetryAfter == 0) != got.Allowed:
		return "a time to retry exactly if it is refused"
	case got.NextAfter < 0 || truth.Allowed && truth.Remaining == 0 && got.NextAfter > truth.NextAfter:
		return "no next unit later than the store's"
	case got.RetryAfter > truth.RetryAfter || got.ResetAfter > truth.ResetAfter:
		return "no times later than the store's"
	case never != (!got.Allowed && c.Cost > c.Limit.Rule().Capacity()):
		return "Never exactly if the cost exceeds the capacity"
	case !never && got.ResetAfter < got.RetryAfter:
		return "a reset that is not before the retry"
	}
	return ""
}

// TestExactTimes checks that, where a key is always requested at the same cost and the local clock is the store's, an
// answer from memory equals the store's, apart from the flag and what has been freed since. A retry is admitted at the
// promised time, and not a microsecond earlier.
func TestExactTimes(t *testing.T) {
	hits := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newTwinStores(rt, t, &hits)
		limit := w.limits[0][0]
		cost := rapid.Int64Range(1, limit.Rule().Capacity()).Draw(rt, "cost")
		take := func() (got, want rule.Answer) {
			got, err := takeOne(w.store, limit, "key", cost)
			if err != nil {
				rt.Fatal(err)
			}
			want, _ = takeOne(w.plain, limit, "key", cost)
			if got.Flags == rule.Cached {
				hits++
				if got.Remaining > want.Remaining {
					rt.Fatalf("Remaining is too high:\n got   %+v\n store %+v", got, want)
				}
				got.Flags, got.Remaining = 0, want.Remaining
			}
			if got != want {
				rt.Fatalf("\n got   %+v\n store %+v", got, want)
			}
			return got, want
		}
		for range 40 {
			a, _ := take()
			if a.Allowed {
				w.clock.Advance(rule.Micros(rapid.Int64Range(0, 100_000).Draw(rt, "after")))
				continue
			}
			w.clock.Advance(rule.Micros(rapid.Int64Range(0, int64(a.RetryAfter)-1).Draw(rt, "early")))
			if a, _ = take(); a.Allowed {
				rt.Fatalf("admitted before the retry time: got %+v, want refused", a)
			}
			w.clock.Advance(a.RetryAfter - 1)
			if a, _ = take(); a.Allowed || a.RetryAfter != 1 {
				rt.Fatalf("a microsecond before the retry time: got %+v, want refused, RetryAfter 1", a)
			}
			w.clock.Advance(1)
			if a, _ = take(); !a.Allowed {
				rt.Fatalf("refused at the retry time: got %+v, want allowed", a)
			}
		}
	})
	if hits < least(1000) {
		t.Fatalf("only %d answers came from memory", hits)
	}
}

// TestTrueWhenFar checks that, with latency to and from the store, and a local clock that is finer than the store's and
// ticks at other times, the store would refuse at that time whatever is refused from memory.
func TestTrueWhenFar(t *testing.T) {
	hits := 0
	rapid.Check(t, func(rt *rapid.T) {
		phase := rapid.Int64Range(0, 999).Draw(rt, "phase")
		nanos := int64(epoch * 1000)
		inner, err := memstore.New(memstore.Options{Now: func() rule.Micros { return rule.Micros(nanos+phase) / 1000 }})
		if err != nil {
			rt.Fatal(err)
		}
		far := &spy{Store: inner}
		trip := rapid.SampledFrom([]int64{1, 900, 2_000_000})
		far.before = func(rule.Op) { nanos += trip.Draw(rt, "there") }
		far.after = func(rule.Op) { nanos += trip.Draw(rt, "back") }
		st := layered(t, far, refusals.Options{
			MaxAge: -1, Now: func() time.Duration { return time.Duration(rule.Micros(nanos) - epoch*1000) },
		})
		limit := bound(t, rapid.SampledFrom(kinds()).Draw(rt, "limit"))
		charge := store.Charge{Limit: limit, Key: "key", Cost: rapid.Int64Range(1, 3).Draw(rt, "cost")}
		truth := func() rule.Answer {
			answers, err := apply(context.Background(), inner, rule.Peek, "", charge)
			if err != nil {
				rt.Fatal(err)
			}
			return answers[0]
		}
		for range 40 {
			a, err := takeOne(st, limit, "key", charge.Cost)
			if err != nil {
				rt.Fatal(err)
			}
			now := truth()
			if a.Flags == rule.Cached {
				hits++
				if now.Allowed || a.RetryAfter > now.RetryAfter || a.RetryAfter < 1 || a.ResetAfter > now.ResetAfter || a.At < now.At {
					rt.Fatalf("from memory:\n got   %+v\n store %+v\nwant a refusal that waits at least 1 and no longer than the store's", a, now)
				}
			}
			if !now.Allowed {
				at := now.At + now.RetryAfter // the store's own; shortly before it, the layer may be wrong
				nanos = max(nanos, int64(at)*1000-phase+rapid.SampledFrom([]int64{
					-2_000_000_000, -5_000_000, -2500, -1500, -1000, -999, -500, -1, 0, 1,
				}).Draw(rt, "moment"))
			}
		}
	})
	if hits < least(300) {
		t.Fatalf("only %d answers came from memory", hits)
	}
}

// least returns how many answers from memory a test needs to be meaningful. With -short a fifth is played.
func least(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}
