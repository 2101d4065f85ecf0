package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// distant is a store with round trips that can be unwrapped.
type distant struct{ store.Store }

func (d distant) Unwrap() store.Store { return d.Store }

func (d distant) Traits() store.Traits {
	traits := d.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

// Policies without a name in two sets on one store share the namespace of their limiters, so their limits would share
// counts, however the limiters were made.
func TestUnnamedPoliciesDoNotShareCounts(t *testing.T) {
	hundred, five := []slidegate.Limit{slidegate.PerMinute(100)}, []slidegate.Limit{slidegate.PerMinute(5)}
	for name, test := range map[string]struct {
		first, second Spec
		both          bool
	}{
		"other quotas": {Spec{Limits: hundred}, Spec{Limits: five}, false},
		"equal":        {Spec{Limits: five}, Spec{Limits: five}, true},
		"a name":       {Spec{Limits: hundred}, Spec{Name: "login", Limits: five}, true},
		"an override":  {Spec{Limits: five, Overrides: []policy.Override{{Key: "vip", Limits: hundred}}}, Spec{Limits: five}, true},
	} {
		for _, opts := range []Options{{}, {Failure: store.FailLocal}} {
			memory := newMemory(t)
			for _, on := range []store.Store{memory, distant{memory}} {
				limiter := testkit.Must(slidegate.New(slidegate.Namespace(on, t.Name())))(t)
				if _, err := New(limiter, []Spec{test.first}, opts); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for way, limiter := range map[string]*slidegate.Limiter{
					"one limiter": limiter, "two limiters": testkit.Must(slidegate.New(slidegate.Namespace(memory, t.Name())))(t),
				} {
					_, err := New(limiter, []Spec{test.second}, opts)
					named := errors.Is(err, slidegate.ErrConflict) && strings.Contains(err.Error(), `"100/1m"`) && strings.Contains(err.Error(), `"5/1m"`)
					if test.both != (err == nil) || !test.both && !named {
						t.Errorf("%s, %s: got %v; want both accepted: %v", name, way, err, test.both)
					}
				}
			}
		}
	}
}

// Charges and refunds are carried out for a client that has left, also under a policy with more than limits.
func TestCorrectionsOutliveTheClient(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	five := []slidegate.Limit{slidegate.MustParseLimit("5/1h sliding-window")} // a log holds no more than its quota
	set := newSet(t, newMemory(t), Options{}, Spec{Name: "plain", Limits: five}, Spec{Name: "tried", Limits: five, Shadow: true})
	for index := range 2 {
		decide := func(ctx context.Context, op rule.Op, part Part) (v policy.Decision) {
			part.Policy, part.Key = index, "k"
			set.Decide(ctx, op, &part, &v)
			if v.Err != nil {
				t.Errorf("%v: %v", op, v.Err)
			}
			return v
		}
		decide(t.Context(), rule.Take, Part{Cost: 2})
		decide(gone, rule.Charge, Part{Cost: 4})
		decide(gone, rule.GiveBack, Part{Cost: 3})
		if left := decide(t.Context(), rule.Peek, Part{Cost: 1}).Decision.Remaining; left != 2 {
			t.Errorf("policy %d: got %d left, want 2", index, left)
		}
	}
}

// Two sets that share the counts of a limit without a name are logged; those that give it a name, or another store, are not.
func TestSharedUnnamedLimitIsLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	five := Spec{Limits: []slidegate.Limit{slidegate.PerMinute(5)}}
	meant := Spec{Limits: []slidegate.Limit{named("shared", 5)}}
	for name, test := range map[string]struct {
		first, second Spec
		logged        bool
	}{
		"equal":             {five, five, true},
		"other windows":     {five, Spec{Limits: []slidegate.Limit{slidegate.PerHour(5)}}, false},
		"named policies":    {Spec{Name: "login", Limits: five.Limits}, Spec{Name: "signup", Limits: five.Limits}, false},
		"one of them is":    {five, Spec{Name: "signup", Limits: five.Limits}, false},
		"a named limit":     {meant, meant, false},
		"an equal override": {Spec{Limits: meant.Limits, Overrides: []policy.Override{{Key: "k", Limits: five.Limits}}}, five, true},
	} {
		memory := newMemory(t)
		log.Reset()
		first := newSet(t, memory, Options{}, test.first)
		newSet(t, newMemory(t), Options{}, test.second)
		if log.Len() > 0 {
			t.Errorf("%s: got %s before the second set on the store", name, log.String())
		}
		newSet(t, memory, Options{}, test.second)
		if got := strings.Contains(log.String(), "share its counts"); got != test.logged {
			t.Errorf("%s: got the log %q, want a warning: %v", name, log.String(), test.logged)
		}
		runtime.KeepAlive(first)
	}
}

// A set that is not in use anymore is forgotten, so that another may have its limits.
func TestUnusedSetsAreForgotten(t *testing.T) {
	memory := newMemory(t)
	newSet(t, memory, Options{}, Spec{Limits: []slidegate.Limit{slidegate.PerMinute(5)}})
	known := func() (n int) {
		unnamed.mu.Lock()
		defer unnamed.mu.Unlock()
		for id := range unnamed.by {
			if id.store == reflect.ValueOf(memory).Pointer() {
				n++
			}
		}
		return n
	}
	if n := known(); n != 1 {
		t.Errorf("got %d limits of the set, want 1", n)
	}
	for range 1000 { // until the garbage collector has run
		if runtime.GC(); known() == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("the set is gone, but its limit is still known")
}
