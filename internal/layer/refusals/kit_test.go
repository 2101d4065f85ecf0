package refusals_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/internal/leakcheck"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// epoch is the beginning of a minute, and of an hour: 490,900 hours after the Unix epoch.
const epoch = rule.Micros(490_900 * 3600 * 1e6)

func layered(t testing.TB, inner store.Store, opts refusals.Options) *refusals.Store {
	t.Helper()
	return refusals.New(inner, opts)
}

func memory(t testing.TB, clock *storetest.Clock) *memstore.Store {
	t.Helper()
	return testkit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t)
}

func bound(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return testkit.Must(adapter.Bind("", limit))(t)
}

// local returns the store's clock as a local clock.
func local(clock *storetest.Clock) func() time.Duration {
	return func() time.Duration { return time.Duration(clock.Now()) * time.Microsecond }
}

// spy counts calls to a store, and lets a test act just before and just after the store decides.
type spy struct {
	store.Store
	requests      atomic.Int64 // requests
	calls         atomic.Int64
	before, after func(rule.Op)
	twist         func(*rule.Answer) // changes answers
}

func (s *spy) Apply(ctx context.Context, batch []store.Request) error {
	s.requests.Add(int64(len(batch)))
	s.calls.Add(1)
	if s.before != nil {
		s.before(batch[0].Op)
	}
	err := s.Store.Apply(ctx, batch)
	if s.twist != nil {
		for i := range batch {
			for k := range batch[i].Answers {
				s.twist(&batch[i].Answers[k])
			}
		}
	}
	if s.after != nil {
		s.after(batch[0].Op)
	}
	return err
}

// quickSpy is a spy that is also a SingleTaker.
type quickSpy struct{ *spy }

func (s quickSpy) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	a, err := apply(ctx, s.spy, rule.Take, "", store.Charge{Limit: limit, Key: key, Cost: cost})
	if err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	return a[0].Allowed, a[0].Flags, a[0].Remaining, answering.After(&a[0]), a[0].ResetAfter, a[0].At, nil
}

// apply sends one request. Its answers initially hold nonsense, which the store has to overwrite.
func apply(
	ctx context.Context, st store.Store, op rule.Op, group string, charges ...store.Charge,
) ([]rule.Answer, error) {
	return send(ctx, st, store.Request{Op: op, Group: group, Charges: charges})
}

// send is apply for a request with more than an operation and charges.
func send(ctx context.Context, st store.Store, r store.Request) ([]rule.Answer, error) {
	nonsense := rule.Answer{
		Allowed: true, Flags: 0xff, Granted: -1, Remaining: -1, RetryAfter: -1, ResetAfter: -1, NextAfter: -1, At: -1,
	}
	answers := make([]rule.Answer, len(r.Charges))
	for i := range answers {
		answers[i] = nonsense
	}
	r.Answers, r.Err = answers, context.Canceled
	batch := []store.Request{r}
	err := st.Apply(ctx, batch)
	if err != batch[0].Err {
		panic("Apply does not return the error of its only request")
	}
	return answers, err
}

// takeOne calls TakeSingle and returns its results as an Answer.
func takeOne(
	taker store.SingleTaker, limit *store.Limit, key string, cost int64,
) (a rule.Answer, err error) {
	var after rule.Micros
	a.Allowed, a.Flags, a.Remaining, after, a.ResetAfter, a.At, err =
		taker.TakeSingle(context.Background(), limit, key, cost)
	if a.Allowed {
		a.Granted, a.NextAfter = cost, after
	} else {
		a.RetryAfter = after
	}
	return a, err
}

// rig is a layer over a memory store, on one clock that starts at the beginning of a minute.
type rig struct {
	t     testing.TB
	clock *storetest.Clock
	spy   *spy
	store *refusals.Store
	one   bool // takes go through TakeSingle
}

// rigs runs a test in every way of taking a single charge.
func rigs(t *testing.T, opts refusals.Options, run func(r *rig)) {
	for _, way := range []string{"TakeSingle", "TakeSingle by Apply", "Apply"} {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, opts, way == "TakeSingle")
			r.one = way != "Apply"
			run(r)
		})
	}
}

func newRig(t testing.TB, opts refusals.Options, quick bool) *rig {
	t.Helper()
	r := &rig{t: t, clock: storetest.NewClock(epoch)}
	r.spy = &spy{Store: memory(t, r.clock)}
	if opts.Now == nil {
		opts.Now = local(r.clock)
	}
	if quick {
		r.store = layered(t, quickSpy{r.spy}, opts)
	} else {
		r.store = layered(t, r.spy, opts)
	}
	return r
}

func (r *rig) pass(d time.Duration) { r.clock.Advance(rule.Micros(d.Microseconds())) }

func (r *rig) take(limit *store.Limit, key string, cost int64) rule.Answer {
	r.t.Helper()
	if !r.one {
		return r.do(rule.Take, limit, key, cost)
	}
	a, err := takeOne(r.store, limit, key, cost)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) do(op rule.Op, limit *store.Limit, key string, cost int64) rule.Answer {
	r.t.Helper()
	return r.several(op, "", store.Charge{Limit: limit, Key: key, Cost: cost})[0]
}

// end settles a reservation that took its units now.
func (r *rig) end(op rule.Op, id rule.ID, limit *store.Limit, key string, cost int64) {
	r.t.Helper()
	charge := store.Charge{Limit: limit, Key: key, Cost: cost, At: r.clock.Now()}
	if _, err := send(context.Background(), r.store, store.Request{Op: op, ID: id, Charges: []store.Charge{charge}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) several(op rule.Op, group string, charges ...store.Charge) []rule.Answer {
	r.t.Helper()
	answers, err := apply(context.Background(), r.store, op, group, charges...)
	if err != nil {
		r.t.Fatal(err)
	}
	return answers
}

// wantCalls fails unless the store received this many requests since the last check.
func (r *rig) wantCalls(want int64, when string) {
	r.t.Helper()
	if got := r.spy.requests.Swap(0); got != want {
		r.t.Fatalf("%s: the store received %d requests, want %d", when, got, want)
	}
}

func (r *rig) wantAnswer(got, want rule.Answer, when string) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("%s:\n got  %+v\n want %+v", when, got, want)
	}
}

// fixed returns a limit of two per minute, in windows that begin with the minute.
func fixed(t testing.TB) *store.Limit {
	t.Helper()
	return bound(t, slidegate.Limit{Name: "fixed", Quota: 2, Window: time.Minute, Algorithm: slidegate.FixedWindow})
}

const second = rule.Micros(1e6)
