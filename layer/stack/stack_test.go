package stack_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/layer/stack"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// remote is a store with round trips that can be away.
type remote struct {
	store.Store
	trips, shared int // of its traits
	away          atomic.Bool
	takes         atomic.Int64 // calls other than probes, which charge without asking
}

var errAway = fmt.Errorf("remote: no route to host: %w: %w", store.ErrDown, store.ErrUndone)

func newRemote(t testing.TB) *remote {
	t.Helper()
	return &remote{Store: testkit.Must(memstore.New(memstore.Options{}))(t), trips: 1}
}

func (r *remote) Traits() store.Traits {
	traits := r.Store.Traits()
	traits.RoundTrips, traits.Calls = r.trips, r.shared
	return traits
}

func (r *remote) Apply(ctx context.Context, batch []store.Request) error {
	if batch[0].Op != rule.Charge {
		r.takes.Add(1)
	}
	if !r.away.Load() {
		return r.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Err = errAway
	}
	return errAway
}

// observer is a store that observes another, and can be closed.
type observer struct {
	store.Store
	closed int
}

func (o *observer) Unwrap() store.Store { return o.Store }
func (o *observer) Close() error        { o.closed++; return nil }

func observed(to **observer) func(store.Store) (store.Store, error) {
	return func(st store.Store) (store.Store, error) {
		*to = &observer{Store: st}
		return *to, nil
	}
}

// layersOf returns the types of a store and of what it wraps, from the outside in.
func layersOf(st store.Store) (all []string) {
	for {
		all = append(all, strings.TrimPrefix(fmt.Sprintf("%T", st), "*"))
		wrapper, ok := st.(store.Wrapper)
		if !ok {
			return all
		}
		st = wrapper.Unwrap()
	}
}

func TestLayersAndTheirOrder(t *testing.T) {
	var seen *observer
	observe := observed(&seen)
	for name, test := range map[string]struct {
		st   func(t *testing.T) store.Store
		opts stack.Options
		want string
	}{
		"remote": {func(t *testing.T) store.Store { return newRemote(t) }, stack.Options{Observe: observe},
			"stack_test.observer lease.Store failure.Store refusals.Store coalesce.Store stack_test.remote"},
		"no refusals": {func(t *testing.T) store.Store { return newRemote(t) }, stack.Options{RefusalAge: -1},
			"lease.Store failure.Store coalesce.Store stack_test.remote"},
		"shares calls itself": {func(t *testing.T) store.Store { return &remote{Store: newRemote(t).Store, trips: 2, shared: -1} }, stack.Options{},
			"lease.Store failure.Store refusals.Store stack_test.remote"},
		"memory":       {func(*testing.T) store.Store { return memstore.NewDefault() }, stack.Options{}, "memstore.Store"},
		"memory, seen": {func(*testing.T) store.Store { return memstore.NewDefault() }, stack.Options{Observe: observe}, "stack_test.observer memstore.Store"},
		"in process":   {func(t *testing.T) store.Store { return &remote{Store: newRemote(t).Store} }, stack.Options{}, "failure.Store stack_test.remote"},
		"a view":       {func(t *testing.T) store.Store { return store.In(newRemote(t), store.FailClosed) }, stack.Options{RefusalAge: -1}, "lease.Store failure.Store coalesce.Store stack_test.remote"},
		"a stack": {func(t *testing.T) store.Store { return testkit.Must(stack.New(newRemote(t), stack.Options{}))(t) }, stack.Options{},
			"stack.Store lease.Store failure.Store refusals.Store coalesce.Store stack_test.remote"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Must(stack.New(test.st(t), test.opts))(t)
			if got := strings.Join(layersOf(s.Unwrap()), " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for field, opts := range map[string]stack.Options{
		"Failure": {Failure: store.Modes}, "Timeout": {Timeout: -1}, "ProbeEvery": {ProbeEvery: 99 * time.Millisecond}, "Instances": {Instances: -1},
		"LocalBytes": {LocalBytes: -1},
		"Observe":    {Observe: func(store.Store) (store.Store, error) { return nil, errAway }},
	} {
		for _, st := range []store.Store{newRemote(t), memstore.NewDefault()} { // also where the option has no effect
			if _, err := stack.New(st, opts); err == nil || !strings.HasPrefix(err.Error(), "stack: "+field+": ") {
				t.Errorf("%T: got error %v, want one about %s", st, err, field)
			}
		}
	}
	for field, opts := range map[string]stack.Options{
		"Timeout: must be up to 24h0m0s":                       {Timeout: 25 * time.Hour},
		"ProbeEvery: must be from Timeout, 1m0s, up to":        {Timeout: time.Minute, ProbeEvery: time.Second},
		"ProbeEvery: must be from Timeout, 100ms, up to 24h0m": {ProbeEvery: 25 * time.Hour},
	} {
		if _, err := stack.New(newRemote(t), opts); err == nil || !strings.HasPrefix(err.Error(), "stack: "+field) {
			t.Errorf("got error %v, want one about %s", err, field)
		}
	}
	if _, err := stack.New(newRemote(t), stack.Options{LocalBytes: 1}); err == nil || !strings.Contains(err.Error(), "LocalBytes: ") {
		t.Errorf("a byte: got error %v, want one about LocalBytes", err)
	}
	if layered, err := stack.New(newRemote(t), stack.Options{}); err != nil {
		t.Error(err)
	} else if _, err := stack.New(layered, stack.Options{Failure: store.FailClosed}); err == nil || !strings.Contains(err.Error(), "store.In") {
		t.Errorf("a mode over a stack: got error %v, want one that names store.In", err)
	}
	if _, err := stack.New(nil, stack.Options{}); err == nil || !strings.HasPrefix(err.Error(), "stack: store: ") {
		t.Errorf("no store: got error %v", err)
	}
}

// All modes share one stack: the first request of any mode finds the outage for all of them, and each decides by its own.
func TestModesAreViewsOfOneStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newRemote(t)
		var changes []error
		var fallbacks []string
		s := testkit.Must(stack.New(far, stack.Options{
			Failure:  store.FailClosed,
			OnChange: func(err error) { changes = append(changes, err) },
			OnFallback: func(_ context.Context, mode store.Mode, _ rule.Op, _ error) {
				fallbacks = append(fallbacks, mode.String())
			},
		}))(t)
		far.away.Store(true)
		for _, test := range []struct {
			on      store.Store
			flags   rule.Flags
			allowed [3]bool // with a quota of 2
		}{
			{store.In(s, store.FailOpen), rule.FallbackOpen, [3]bool{true, true, true}},
			{store.In(s, store.FailLocal), rule.FallbackLocal, [3]bool{true, true, false}},
			{store.In(s, store.FailClosed), rule.FallbackClosed, [3]bool{}},
			{s, rule.FallbackClosed, [3]bool{}}, // the default
		} {
			limiter := testkit.Must(slidegate.New(test.on, slidegate.Limit{Name: "l", Quota: 2, Window: time.Hour}))(t)
			for i, allowed := range test.allowed {
				d, err := limiter.Allow(t.Context(), test.flags.String())
				if err != nil || d.Allowed != allowed || d.Flags != test.flags {
					t.Errorf("%v, request %d: got %+v, %v; want allowed %v", test.flags, i, d, err, allowed)
				}
			}
		}
		if takes := far.takes.Load(); takes != 1 {
			t.Errorf("the store was called %d times, want once: one view finds the outage for all", takes)
		}
		if health := s.Health(); !errors.Is(health, errAway) || len(changes) != 1 || !errors.Is(changes[0], errAway) {
			t.Errorf("got health %v and changes %v, want the reason of the outage once", health, changes)
		}
		want := [store.Modes]int64{store.FailOpen: 3, store.FailLocal: 3, store.FailClosed: 6}
		if stats := s.Stats(); stats.Failure.Fallbacks != want || stats.Failure.Outages != 1 || stats.Local.Keys != 1 || len(fallbacks) != 12 {
			t.Errorf("got %+v and %d calls of OnFallback, want the fallbacks %v, one outage, one key counted here and 12 calls", stats, len(fallbacks), want)
		}
		far.away.Store(false)
		testkit.Pass(2 * time.Second)
		if err := s.Health(); err != nil || len(changes) != 2 || changes[1] != nil {
			t.Errorf("two seconds after the store is back: got health %v and changes %v, want none and its end", err, changes)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Close returns leased units through the layers below, and closes the observer. Requests are decided afterwards.
func TestCloseReturnsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newRemote(t)
		var seen *observer
		s := testkit.Must(stack.New(far, stack.Options{Observe: observed(&seen)}))(t)
		limit := slidegate.Limit{Quota: 10_000, Window: time.Hour, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}
		limiter := testkit.Must(slidegate.New(s, limit))(t)
		var spent int64
		take := func() {
			if d := testkit.Must(limiter.Allow(t.Context(), "k"))(t); d.Allowed {
				spent++
			}
		}
		for range 200 {
			testkit.Pass(time.Millisecond)
			take()
		}
		if s.Stats().Lease.Outstanding == 0 {
			t.Fatal("nothing is leased")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		take()
		left := testkit.Must(testkit.Must(slidegate.New(far.Store, limit))(t).Peek(t.Context(), "k", 1))(t).Remaining
		if used := limit.Quota - left; used != spent || spent != 201 || seen.closed != 1 {
			t.Errorf("got %d used and %d admitted of 201, the observer closed %d times; want 201, 201 and once", used, spent, seen.closed)
		}
	})
}

// Instances divides what each process admits without the store.
func TestInstances(t *testing.T) {
	far := newRemote(t)
	far.away.Store(true)
	limiter := testkit.Must(slidegate.New(testkit.Must(stack.New(far, stack.Options{Instances: 5}))(t), slidegate.PerHour(10)))(t)
	admitted := 0
	for range 10 {
		if d := testkit.Must(limiter.Allow(t.Context(), "k"))(t); d.Allowed {
			admitted++
		}
	}
	if admitted != 2 {
		t.Errorf("one of five processes admitted %d of 10, want 2", admitted)
	}
}

// Close of a store over another stack leaves the layers of that one alone.
func TestCloseLeavesOtherLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newRemote(t)
		inner := testkit.Must(stack.New(far, stack.Options{}))(t)
		outer := testkit.Must(stack.New(inner, stack.Options{}))(t)
		if err := outer.Close(t.Context()); err != nil {
			t.Error(err)
		}
		far.away.Store(true)
		limiter := testkit.Must(slidegate.New(outer, slidegate.PerHour(10)))(t)
		if d, err := limiter.Allow(t.Context(), "k"); err != nil || !d.Allowed || outer.Health() == nil {
			t.Errorf("got %+v, %v and health %v; want an admission, and the health of the layers below", d, err, outer.Health())
		}
		far.away.Store(false)
		if err := inner.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
