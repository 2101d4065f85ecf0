package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// faultyStore is a store that counts calls, and can fail.
type faultyStore struct {
	store.Store
	trips int
	err   error // of all requests, if not nil; see fail
	slow  bool  // it does not answer until the context ends
	calls atomic.Int64
	mu    sync.Mutex // guards err once there are requests: the store is also probed in the background
}

// fail makes all requests fail with err, or none if it is nil.
func (f *faultyStore) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

var errDown = fmt.Errorf("no answer: %w", store.ErrDown)

func (f *faultyStore) Apply(ctx context.Context, batch []store.Request) error {
	f.calls.Add(1)
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if f.slow {
		<-ctx.Done()
		err = ctx.Err()
	}
	if err == nil {
		return f.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

func (f *faultyStore) Traits() store.Traits {
	traits := f.Store.Traits()
	traits.RoundTrips = f.trips
	return traits
}

func newMemory(t testing.TB) *memstore.Store {
	t.Helper()
	return testkit.Must(memstore.New(memstore.Options{}))(t)
}

func newSet(t testing.TB, on store.Store, opts Options, policies ...Spec) *Set {
	t.Helper()
	limiter := testkit.Must(slidegate.New(on))(t)
	s := testkit.Must(New(limiter, policies, opts))(t)
	if layers := s.layers; layers != nil {
		t.Cleanup(func() { _ = layers.Close(context.Background()) }) // it ends a probe under way
	}
	return s
}

func named(name string, quota int64) slidegate.Limit {
	return slidegate.Limit{Name: name, Quota: quota, Window: time.Hour}
}

func take(t testing.TB, s *Set, part Part) (v policy.Decision) {
	t.Helper()
	s.Decide(t.Context(), rule.Take, &part, &v)
	return v
}

// In whichever way a store fails, the mode decides, and the verdict has the reason.
func TestFailureModeDecidesWhenTheStoreFails(t *testing.T) {
	plain := Spec{Name: "p", Limits: []slidegate.Limit{named("", 1)}}
	type want struct {
		allowed [2]bool
		flags   rule.Flags
	}
	opens, closes := want{[2]bool{true, true}, rule.FallbackOpen}, want{[2]bool{false, false}, rule.FallbackClosed}
	local := want{[2]bool{true, false}, rule.FallbackLocal}
	for mode, want := range map[store.Mode]want{
		0: local, store.FailOpen: opens, store.FailClosed: closes, store.FailLocal: local,
	} {
		for trips := range 2 {
			s := newSet(t, &faultyStore{Store: newMemory(t), trips: trips, err: errDown}, Options{Failure: mode}, plain)
			for i, allowed := range want.allowed {
				v := take(t, s, Part{Key: "ann", Cost: 1})
				if v.Decision.Allowed != allowed || v.Refused == allowed || v.Decision.Flags != want.flags || !errors.Is(v.Err, errDown) || v.Mistake || v.Ended {
					t.Errorf("%d round trips, %v, request %d: got %+v, want allowed %v with the flags %v and errDown", trips, mode, i+1, v, allowed, want.flags)
				}
			}
			if err := s.Drain(t.Context()); err != nil {
				t.Errorf("%d round trips, %v drained: %v", trips, mode, err)
			}
		}
	}
}

// A policy's own mode takes precedence over that of the options, and where several decide together the strictest
// applies.
func TestStrictestMode(t *testing.T) {
	policies := []Spec{
		{Name: "open", Failure: store.FailOpen, Limits: []slidegate.Limit{named("", 1)}}, {Name: "default", Limits: []slidegate.Limit{named("", 1)}},
		{Name: "closed", Failure: store.FailClosed, Limits: []slidegate.Limit{named("", 1)}},
	}
	s := newSet(t, &faultyStore{Store: newMemory(t), trips: 1, err: errDown}, Options{Failure: store.FailLocal}, policies...)
	for _, test := range []struct {
		indexes []int
		want    rule.Flags
	}{
		{[]int{0}, rule.FallbackOpen}, {[]int{1}, rule.FallbackLocal}, {[]int{2}, rule.FallbackClosed},
		{[]int{0, 1}, rule.FallbackLocal}, {[]int{1, 0}, rule.FallbackLocal}, {[]int{2, 0, 1}, rule.FallbackClosed},
	} {
		r := s.Begin()
		for _, index := range test.indexes {
			r.Add(Part{Policy: index, Key: "ann", Cost: 1})
		}
		var v policy.Decision
		r.Decide(t.Context(), rule.Take, &v)
		r.End()
		if v.Decision.Flags != test.want {
			t.Errorf("policies %v: got flags %v, want %v", test.indexes, v.Decision.Flags, test.want)
		}
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("drained: %v", err)
	}
}

// A store that does not answer delays the first request by its timeout, and the others not at all.
func TestDeadStoreIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := &faultyStore{Store: newMemory(t), trips: 1, slow: true}
		s := newSet(t, dead, Options{}, Spec{Limits: []slidegate.Limit{named("", 100)}})
		start := time.Now()
		for range 100 {
			if v := take(t, s, Part{Key: "ann", Cost: 1}); v.Refused || !errors.Is(v.Err, context.DeadlineExceeded) {
				t.Fatalf("got %+v, want an admission with context.DeadlineExceeded", v)
			}
		}
		if took, want := time.Since(start), 100*time.Millisecond; took != want || dead.calls.Load() > 2 {
			t.Errorf("100 requests took %v, want %v, and called the store %d times, want once, and one probe", took, want, dead.calls.Load())
		}
	})
}

// A store that has a failure layer gets no other, keeps its default mode, and obeys the modes of policies.
func TestLayerOfTheCaller(t *testing.T) {
	dead := &faultyStore{Store: newMemory(t), trips: 1, err: errDown}
	layered := failure.New(dead, failure.Options{Mode: store.FailClosed, Local: newMemory(t)})
	for name, test := range map[string]struct {
		on   store.Store
		mode store.Mode
		want rule.Flags
	}{
		"the layer's default":   {layered, 0, rule.FallbackClosed},
		"the policy's":          {layered, store.FailOpen, rule.FallbackOpen},
		"a view's":              {store.In(layered, store.FailLocal), 0, rule.FallbackLocal},
		"the policy's, in view": {store.In(layered, store.FailLocal), store.FailOpen, rule.FallbackOpen},
	} {
		s := newSet(t, test.on, Options{Failure: test.mode}, Spec{Name: name, Limits: []slidegate.Limit{named("", 1)}})
		if v := take(t, s, Part{Cost: 1}); v.Decision.Flags != test.want || s.layers != nil {
			t.Errorf("%s: got %+v and layers %v, want the flags %v and no more layers", name, v, s.layers, test.want)
		}
	}
}

// A Set that replaces another over the same store keeps its layers, and so knows about an outage.
func TestBeforeKeepsLayers(t *testing.T) {
	dead := &faultyStore{Store: newMemory(t), trips: 1, err: errDown}
	limiter := testkit.Must(slidegate.New(dead))(t)
	policies := []Spec{{Name: "p", Failure: store.FailClosed, Limits: []slidegate.Limit{named("", 1)}}}
	first := testkit.Must(New(limiter, policies, Options{}))(t)
	take(t, first, Part{Key: "ann", Cost: 1})
	second := testkit.Must(New(limiter, policies, Options{Before: first}))(t)
	calls := dead.calls.Load()
	v := take(t, second, Part{Key: "ann", Cost: 1})
	if v.Decision.Flags != rule.FallbackClosed || !errors.Is(v.Err, errDown) || dead.calls.Load() != calls {
		t.Errorf("got %+v after %d calls, want a refusal with errDown and no call", v, dead.calls.Load()-calls)
	}
	other := testkit.Must(New(testkit.Must(slidegate.New(newMemory(t)))(t), policies, Options{Before: first}))(t)
	if v := take(t, other, Part{Key: "ann", Cost: 1}); v.Err != nil || v.Refused {
		t.Errorf("over another store: got %+v, want its admission", v)
	}
}

// The hot path goes straight to the limiter: nothing is allocated, not even for a plan once it is known.
func TestAllocations(t *testing.T) {
	prepared := 0
	s := newSet(t, newMemory(t), Options{Prepare: func([]slidegate.Limit) (any, error) { prepared++; return &prepared, nil }},
		Spec{Name: "p", Limits: []slidegate.Limit{named("", 1<<40)}})
	plan := policy.Limits(named("x", 1<<40))
	for name, part := range map[string]Part{"plain": {Key: "ann", Cost: 1}, "plan": {Key: "ann", Cost: 1, Plan: plan}} {
		var v policy.Decision
		if got := testing.AllocsPerRun(200, func() { v = policy.Decision{}; s.Decide(t.Context(), rule.Take, &part, &v) }); got != 0 || v.Refused || v.Err != nil {
			t.Errorf("%s: %v allocations and %+v, want 0 and an admission without an error", name, got, v)
		}
	}
	if prepared != 2 {
		t.Errorf("limits were prepared %d times, want once for the policy and once for the plan", prepared)
	}
}

// Policies that decide together are prepared together, once, whatever their number; only the answers are allocated.
func TestAllocationsTogether(t *testing.T) {
	prepared := 0
	var policies []Spec
	for index := range maxJoint + 1 {
		policies = append(policies, Spec{Name: fmt.Sprint("p", index), Limits: []slidegate.Limit{named("", 1<<40)}})
	}
	s := newSet(t, newMemory(t), Options{Prepare: func(limits []slidegate.Limit) (any, error) { prepared++; return len(limits), nil }}, policies...)
	for n := 2; n <= maxJoint+1; n++ {
		prepared = 0
		allocations := testing.AllocsPerRun(100, func() {
			r := s.Begin()
			for index := range n {
				r.Add(Part{Policy: index, Key: "ann", Cost: 1})
			}
			var v policy.Decision
			r.Decide(t.Context(), rule.Take, &v)
			r.End()
			if v.Refused || len(v.Limits) != n || v.Limits[n-1].Name != fmt.Sprint("p", n-1) || v.Note != n {
				t.Fatalf("%d policies: got %+v with the note %v, want an admission by %d limits, the last p%d, and the note %d", n, v, v.Note, n, n-1, n)
			}
		})
		if once := prepared == 1; once != (n <= maxJoint) {
			t.Errorf("%d policies: prepared %d times, want once exactly if they are at most %d", n, prepared, maxJoint)
		}
		if !testkit.Race && n <= maxJoint && allocations > 3 { // the answers, the text that is compared here, and a pool may be emptied
			t.Errorf("%d policies: %v allocations, want at most 3", n, allocations)
		}
	}
}

// Plans are remembered up to a bound, and work beyond it.
func TestPlansAreBounded(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{Name: "p", Limits: []slidegate.Limit{named("", 1000)}})
	for i := range maxKnown + 10 {
		if v := take(t, s, Part{Key: "ann", Cost: 1, Plan: policy.Limits(named("", int64(1000000+i)))}); v.Refused || v.Limits[0].Name != "p" {
			t.Fatalf("plan %d: got %+v, want an admission by the limit p", i, v)
		}
	}
	if got := len(*s.policies[0].plans.known.Load()); got != maxKnown {
		t.Errorf("got %d plans remembered, want %d", got, maxKnown)
	}
	var long []slidegate.Limit
	for i := range maxPlanLimits + 1 {
		long = append(long, named(fmt.Sprint(i), 1))
	}
	if v := take(t, s, Part{Key: "bob", Cost: 1, Plan: policy.Limits(long...)}); v.Refused || len(v.Limits) != len(long) {
		t.Errorf("a plan of many limits: got %+v, want an admission by %d limits", v, len(long))
	}
}

// All kinds of plans, and overrides that take precedence.
func TestKindsOfPlans(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{
		Name: "p", Limits: []slidegate.Limit{named("", 1)},
		Overrides: []policy.Override{{Key: "vip", Unlimited: true}, {Key: "team-*", Pattern: true, Limits: []slidegate.Limit{named("team", 2)}}},
	})
	for _, test := range []struct {
		name, key string
		plan      policy.Plan
		admitted  int // out of three
		by        policy.By
	}{
		{"own limits", "a", policy.Plan{}, 1, policy.ByLimits},
		{"these limits", "b", policy.Limits(named("", 2)), 2, policy.ByLimits},
		{"unlimited", "c", policy.Unlimited(), 3, policy.ByUnlimited},
		{"nothing", "d", policy.Refused(), 0, policy.ByBlockList},
		{"an override", "vip", policy.Refused(), 3, policy.ByUnlimited},
		{"a pattern", "team-1", policy.Unlimited(), 2, policy.ByLimits},
	} {
		admitted := 0
		var v policy.Decision
		for range 3 {
			if v = take(t, s, Part{Key: test.key, Cost: 1, Plan: test.plan}); !v.Refused {
				admitted++
			}
		}
		if admitted != test.admitted || v.By != test.by || v.Err != nil {
			t.Errorf("%s: got %d of 3 admitted, want %d; the last verdict is %+v", test.name, admitted, test.admitted, v)
		}
	}
}

// A Set that replaces another keeps the bound limits that are in both.
func TestSetKeepsBoundLimits(t *testing.T) {
	on := newMemory(t)
	policies := []Spec{{Name: "p", Limits: []slidegate.Limit{named("", 5)}, Penalty: time.Hour}}
	first := testkit.Must(NewOver(on, policies, Options{}))(t)
	policies = append(policies, Spec{Name: "q", Limits: []slidegate.Limit{named("", 5)}})
	second := testkit.Must(NewOver(on, policies, Options{Before: first}))(t)
	for i, bound := range second.BoundLimits(0) {
		if before := first.BoundLimits(0)[i]; before != bound {
			t.Errorf("limit %d is now %s in %q, want the identical limit as before: %s in %q", i, bound.Label(), bound.Namespace(), before.Label(), before.Namespace())
		}
	}
	if second.opts.Before != nil {
		t.Error("the second set still refers to the first, want earlier sets to be collectable")
	}
}

// A Set over another store than the one before it counts there.
func TestBeforeOverAnotherStore(t *testing.T) {
	policies := []Spec{{Name: "p", Limits: []slidegate.Limit{named("", 5)}}}
	first := testkit.Must(NewOver(newMemory(t), policies, Options{}))(t)
	take(t, first, Part{Key: "ann", Cost: 3})
	on := newMemory(t)
	second := testkit.Must(NewOver(on, policies, Options{Before: first}))(t)
	take(t, second, Part{Key: "ann", Cost: 1})
	fresh := testkit.Must(NewOver(on, policies, Options{}))(t)
	for name, s := range map[string]*Set{"the second set": second, "a set over its store": fresh} {
		if got := left(t, s, 0); got != 4 {
			t.Errorf("%s: got %d of 5 left after 1, want 4", name, got)
		}
	}
}

// A plan that admits nothing takes precedence over the allow list, unless there is an override.
func TestRefusedPlanBeatsTheAllowList(t *testing.T) {
	s := newSet(t, newMemory(t), Options{}, Spec{
		Name: "p", Limits: []slidegate.Limit{named("", 5)}, Allow: policy.List{Keys: []string{"ann", "vip"}}, Overrides: []policy.Override{{Key: "vip", Unlimited: true}},
	})
	for _, test := range []struct {
		key  string
		plan policy.Plan
		want policy.By
	}{
		{"ann", policy.Plan{}, policy.ByAllowList}, {"ann", policy.Limits(named("", 1)), policy.ByAllowList}, {"ann", policy.Refused(), policy.ByBlockList},
		{"bob", policy.Refused(), policy.ByBlockList}, {"vip", policy.Refused(), policy.ByAllowList},
	} {
		if v := take(t, s, Part{Key: test.key, Cost: 1, Plan: test.plan}); v.By != test.want || v.Refused != (test.want == policy.ByBlockList) {
			t.Errorf("%s with %+v: got %+v, want it decided by %v", test.key, test.plan, v, test.want)
		}
	}
}

func TestInvalidSetsAreRejected(t *testing.T) {
	limiter := testkit.Must(slidegate.New(newMemory(t)))(t)
	one := []slidegate.Limit{named("", 1)}
	for want, policies := range map[string][]Spec{
		"policy: name: missing":               {{Limits: one}, {Name: "a", Limits: one}},
		`policy: name: duplicate "a"`:         {{Name: "a", Limits: one}, {Name: "a", Limits: one}},
		`policy: name: "a" and "a/b"`:         {{Name: "a", Limits: one}, {Name: "a/b", Limits: one}},
		`policy "": limits: invalid limit`:    {{}},
		`policy "a": failure: unknown mode`:   {{Name: "a", Limits: one, Failure: store.Modes}},
		`policy "a": overrides: override 1: `: {{Name: "a", Limits: one, Overrides: []policy.Override{{Key: "k"}}}},
	} {
		if _, err := New(limiter, policies, Options{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("New returned %v, want %s", err, want)
		}
	}
	if _, err := New(nil, nil, Options{}); err == nil {
		t.Error("New accepts a nil limiter, want an error")
	}
	if _, err := NewOver(nil, []Spec{{Name: "a", Limits: one}}, Options{}); err == nil || !strings.Contains(err.Error(), "store: must not be nil") {
		t.Errorf("NewOver without a store returned %v, want an error about the store", err)
	}
	for want, opts := range map[string]Options{
		"Failure: unknown mode": {Failure: store.Modes}, "Timeout: must be": {Timeout: 25 * time.Hour},
		"LocalBytes: must be": {LocalBytes: -1}, "Instances: must be": {Instances: -1},
	} {
		if _, err := New(limiter, []Spec{{Limits: one}}, opts); err == nil || !strings.HasPrefix(err.Error(), "policy: stack: "+want) {
			t.Errorf("%+v: got error %v, want %s", opts, err, want)
		}
	}
	if _, err := NewOver(newMemory(t), []Spec{{Limits: one}}, Options{Failure: store.Modes}); err == nil || !strings.HasPrefix(err.Error(), "policy: failure: unknown mode") {
		t.Errorf("an unknown mode: got error %v", err)
	}
}

// A request that waits decides again and again. Shadow policies are decided once, with the first op that
// is not a peek.
func TestDecideAgain(t *testing.T) {
	s := newSet(t, newMemory(t), Options{},
		Spec{Name: "live", Limits: []slidegate.Limit{named("", 5)}},
		Spec{Name: "tried", Limits: []slidegate.Limit{named("", 5)}, Shadow: true},
		Spec{Name: "refuses", Limits: []slidegate.Limit{named("", 5)}, Shadow: true, Block: policy.List{Keys: []string{"ann"}}},
	)
	r := s.Begin()
	defer r.End()
	r.Record = true
	for index := range 3 {
		r.Add(Part{Policy: index, Key: "ann", Cost: 1})
	}
	for i, step := range []struct {
		op    rule.Op
		tried int
		left  int64
	}{{rule.Peek, 0, 5}, {rule.Take, 2, 4}, {rule.Peek, 0, 4}, {rule.Take, 0, 3}} {
		var v policy.Decision
		r.Decide(t.Context(), step.op, &v)
		if v.Policy != "live" || v.Refused || v.Decision.Remaining != step.left || len(r.Trials()) != step.tried {
			t.Errorf("step %d: got %d tried, want %d; the verdict is %+v", i, len(r.Trials()), step.tried, v)
		}
	}
}
