package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/grpclimit"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

func TestStoreFails(t *testing.T) {
	down := failingStore{err: errDown}
	for _, c := range []struct {
		name  string
		mode  store.Mode
		codes []codes.Code
		flags rule.Flags
	}{
		{"open", store.FailOpen, []codes.Code{codes.OK, codes.OK, codes.OK}, rule.FallbackOpen},
		{"default", 0, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}, rule.FallbackLocal},
		{"closed", store.FailClosed, []codes.Code{codes.Unavailable, codes.Unavailable}, rule.FallbackClosed},
		{"local", store.FailLocal, []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted}, rule.FallbackLocal},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := new(events)
			conn := dial(t, newServer(t, newFailingStore(t, down, "2/1m name=api"), grpclimit.Options{
				Failure: c.mode, OnDecision: seen.add,
			}))
			for _, want := range c.codes {
				err := call(t.Context(), conn, "a")
				wantCode(t, "a call", err, want)
				if err != nil && strings.Contains(err.Error(), "10.1.2.3") {
					t.Errorf("the client got %v, want no details of the store", err)
				}
				retry, _ := details(t, err)
				if (retry != nil) != (want == codes.ResourceExhausted) {
					t.Errorf("%v comes with %v, want a RetryInfo exactly with ResourceExhausted", want, retry)
				}
				got := seen.take()
				if len(got) != 1 || !errors.Is(got[0].Err, errDown) || got[0].Decision.Flags != c.flags ||
					got[0].Decision.Allowed != (want == codes.OK) || got[0].Refused != (want != codes.OK) || got[0].Method != say {
					t.Errorf("got events %+v; want 1 of %s with errDown, the flags %v, allowed %v", got, say, c.flags, want == codes.OK)
				}
			}
		})
	}
}

// Several policies fall back together.
func TestFallbackOfSeveral(t *testing.T) {
	conn := dial(t, newServer(t, newFailingStore(t, failingStore{err: errDown}), grpclimit.Options{
		Failure:  store.FailLocal,
		Policies: []grpclimit.Policy{{Name: "a", Limits: parse("5/1m")}, {Name: "b", Limits: parse("1/1m", "7/1h")}},
	}))
	wantCode(t, "the first", call(t.Context(), conn, "a"), codes.OK)
	err := call(t.Context(), conn, "a")
	wantCode(t, "the second", err, codes.ResourceExhausted)
	if _, quota := details(t, err); len(quota.GetViolations()) != 1 || quota.Violations[0].Subject != "b" {
		t.Errorf("got violations %v, want b", quota)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := grpclimit.New(newFailingStore(t, failingStore{blocks: true}, "1/1m"),
			grpclimit.Options{Timeout: 50 * time.Millisecond, Failure: store.FailClosed})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		wantCode(t, "a call", direct(t.Context(), limits), codes.Unavailable)
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("took %v, want 50ms", took)
		}
		drain(t, limits)
	})
}

// drain ends what the interceptors do in the background: a probe of the store, for example.
func drain(t *testing.T, limits *grpclimit.Interceptors) {
	t.Helper()
	if err := limits.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// closedStore is a store under a failure layer that refuses.
type closedStore struct{ failingStore }

func (closedStore) Apply(_ context.Context, batch []store.Request) error {
	for i := range batch {
		for j := range batch[i].Answers {
			batch[i].Answers[j] = rule.Answer{Flags: rule.FallbackClosed}
		}
		batch[i].Err = nil
	}
	return nil
}

// A store that refuses because it could not decide has not exhausted a quota, and a client has nothing to wait for.
func TestStoreFailsClosedByItself(t *testing.T) {
	limiter, err := slidegate.New(closedStore{}, parse("1/1m")...)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := grpclimit.New(limiter, grpclimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "at the server", direct(t.Context(), limits), codes.Unavailable)
	r := newRemote(t, limiter, grpclimit.ClientOptions{Wait: true})
	wantCode(t, "at the client", r.call(t.Context(), say, nil), codes.Unavailable)
}

// When the caller has left, the store has not failed: no call is admitted for that reason, and no fallback is charged.
func TestCallerHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []store.Mode{store.FailOpen, store.FailLocal, store.FailClosed} {
			seen := new(events)
			limits, err := grpclimit.New(newFailingStore(t, failingStore{blocks: true}, "1/1m"), grpclimit.Options{Failure: mode, OnDecision: seen.add})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			wantCode(t, "a call", direct(ctx, limits), codes.Canceled)
			if got := seen.take(); len(got) != 1 || !got[0].Refused || !got[0].Ended || got[0].Decision.Flags != 0 || !errors.Is(got[0].Err, context.Canceled) {
				t.Errorf("%v: got events %+v; want 1, refused and ended by context.Canceled, without flags", mode, got)
			}
			if mode == store.FailLocal { // its only unit is still there
				wantCode(t, "the next call", direct(t.Context(), limits), codes.OK)
			}
			drain(t, limits)
		}
	})
}

// A mistake of a Plan is an error in the program, not an outage that admits calls. The event has the error.
func TestInvalidPlanIsAnError(t *testing.T) {
	wrong := grpclimit.Policy{Plan: func(context.Context, string) (policy.Plan, error) {
		return policy.Limits(slidegate.Limit{Quota: -1}), nil
	}}
	for _, mode := range []store.Mode{store.FailOpen, store.FailLocal, store.FailClosed} {
		seen := new(events)
		limits, err := grpclimit.New(newLimiter(t, nil, "1/1m"), grpclimit.Options{
			Policies: []grpclimit.Policy{wrong}, Failure: mode, OnDecision: seen.add,
		})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, mode.String(), direct(t.Context(), limits), codes.Internal)
		if got := seen.take(); len(got) != 1 || !got[0].Mistake || !errors.Is(got[0].Err, slidegate.ErrLimit) {
			t.Errorf("got events %+v; want 1, a mistake with slidegate.ErrLimit", got)
		}
	}
}

// An invalid cost does not get around the limit: below 0 it counts as 1, and one too large is never admitted.
func TestInvalidCostDoesNotBypassTheLimit(t *testing.T) {
	for cost, want := range map[int64][]codes.Code{
		-1:            {codes.OK, codes.ResourceExhausted},
		math.MaxInt64: {codes.ResourceExhausted, codes.ResourceExhausted},
	} {
		limits, err := grpclimit.New(newLimiter(t, nil, "1/1h"), grpclimit.Options{
			Policies: []grpclimit.Policy{{Cost: func(context.Context, string, any) int64 { return cost }}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, code := range want {
			wantCode(t, fmt.Sprintf("call %d of cost %d", i+1, cost), direct(t.Context(), limits), code)
		}
	}
}
