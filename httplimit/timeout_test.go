package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A store that does not answer delays a request by Timeout and no longer, and then the failure mode decides.
func TestTimeout(t *testing.T) {
	for _, test := range []struct {
		name   string
		opts   Options
		policy Policy
		status int
		flags  rule.Flags
	}{
		{"open", Options{Failure: store.FailOpen}, Policy{}, 200, rule.FallbackOpen},
		{"closed", Options{Failure: store.FailClosed}, Policy{}, 503, rule.FallbackClosed},
		{"the fallback has time of its own", Options{}, Policy{}, 200, rule.FallbackLocal},
		{"also to reserve", Options{Failure: store.FailOpen}, Policy{CostAfter: CostFromHandler()}, 200, rule.FallbackOpen},
		{"also in the shadow", Options{Failure: store.FailClosed}, Policy{Shadow: true}, 200, rule.FallbackClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.opts.Timeout = 50 * time.Millisecond
				test.opts.Policies = []Policy{test.policy}
				store := newHookStore(t, blocked)
				store.trips = 1
				p := (&play{t: t}).over(store, test.opts, nil, slidegate.PerMinute(1))
				start := time.Now()
				if w := p.from("192.0.2.1"); w.Code != test.status {
					t.Errorf("got status %d, want %d", w.Code, test.status)
				}
				if took := time.Since(start); took != 50*time.Millisecond {
					t.Errorf("got a decision after %v, want 50ms", took)
				}
				if e := p.last(); !errors.Is(e.Err, context.DeadlineExceeded) || e.Decision.Flags != test.flags || len(p.events) != 1 {
					t.Errorf("got %d events, the last %+v; want 1, with context.DeadlineExceeded and the flags %v", len(p.events), e, test.flags)
				}
			})
		})
	}
}

// A store that is late for one key is not an outage: in the mode open, the limit is then counted in this process, reported and
// enforced, and other keys are decided by the store.
func TestOpenCountsLateKeys(t *testing.T) {
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			late := newHookStore(t, func(ctx context.Context, r *store.Request) error {
				if r.Charges[0].Key == "192.0.2.1" {
					return blocked(ctx, r)
				}
				return nil
			})
			late.trips = 1
			p := (&play{t: t}).over(late, Options{
				Failure: store.FailOpen, Policies: everyRequest(alone, Policy{Name: "api", Limits: []slidegate.Limit{slidegate.PerMinute(1)}}),
			}, nil)
			for _, test := range []struct {
				address string
				status  int
				flags   rule.Flags
				retry   string
			}{
				{"192.0.2.1", 200, rule.FallbackLocal, ""}, {"192.0.2.1", 429, rule.FallbackLocal, "60"},
				{"192.0.2.2", 200, 0, ""}, {"192.0.2.2", 429, 0, "60"},
			} {
				w := p.from(test.address)
				if w.Code != test.status || w.Header().Get("Retry-After") != test.retry || !strings.HasPrefix(w.Header().Get("RateLimit"), `"api";r=0;t=60`) {
					t.Errorf("%s: got %d with %v, want %d with a Retry-After of %q, and nothing left for 60 seconds", test.address, w.Code, w.Header(), test.status, test.retry)
				}
				if e := p.last(); e.Decision.Flags != test.flags || e.Refused != (test.status == 429) || (e.Err != nil) != (test.flags != 0) {
					t.Errorf("%s: got event %+v, want the flags %v, and an error with them", test.address, e, test.flags)
				}
			}
		})
	}
}

// The timeout of a decision does not apply to the handler: its context has no deadline.
func TestTimeoutIsNotTheHandlers(t *testing.T) {
	p := newPlay(t, Options{Timeout: time.Hour}, func(_ http.ResponseWriter, r *http.Request) {
		if _, ends := r.Context().Deadline(); ends || r.Context().Err() != nil {
			t.Error("the handler got the decision's context, want one without a deadline")
		}
	}, slidegate.PerMinute(1))
	p.from("192.0.2.1")
}

// Settling does not end with the client's context, nor does it take longer than Timeout.
func TestSettlesAfterTheClientIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		var settled error
		var first sync.Once // further attempts come from another goroutine
		store := newHookStore(t, func(ctx context.Context, r *store.Request) error {
			if r.Op == rule.Take {
				return nil
			}
			first.Do(func() { settled = ctx.Err() })
			return blocked(ctx, r)
		})
		store.trips = 1
		opts := Options{Timeout: 50 * time.Millisecond, Policies: []Policy{{CostAfter: CostOfBytes(1)}}}
		p := (&play{t: t}).over(store, opts, func(http.ResponseWriter, *http.Request) { leave() }, slidegate.PerMinute(5))
		start := time.Now()
		p.do(httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if settled != nil {
			t.Errorf("settling: got a context that has ended with %v, want one that has not", settled)
		}
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("settling took %v, want 50ms", took)
		}
		if err := p.limits.Drain(t.Context()); err != nil { // it is tried again meanwhile
			t.Error(err)
		}
		if e := p.last(); !errors.Is(e.Err, context.DeadlineExceeded) || len(p.events) != 2 {
			t.Errorf("got %d events, the last %+v; want 2, the last with context.DeadlineExceeded", len(p.events), e)
		}
	})
}

// The usage of a client that is gone still counts.
func TestCountsAfterTheClientIsGone(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	p := afterPlay(t, CostOfBytes(1), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4))
		leave()
	})
	p.do(httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if got := p.left(); got != 6 {
		t.Errorf("got %d of 10 left after 4 bytes, want 6", got)
	}
}

// The group of a request is part of the address, for decisions, reservations, settling and shadow policies.
func TestGroupIsPartOfTheAddress(t *testing.T) {
	var groups []string
	see := func(_ context.Context, r *store.Request) error {
		groups = append(groups, r.Group)
		return nil
	}
	tenant := func(r *http.Request) string { return r.Header.Get("X-Tenant") }
	for _, test := range []struct {
		name     string
		apply    func(context.Context, *store.Request) error
		opts     Options
		policy   Policy
		requests int
	}{
		{"a decision", see, Options{}, Policy{}, 1},
		{"the shadow", see, Options{}, Policy{Shadow: true}, 1},
		{"a reservation", see, Options{}, Policy{CostAfter: CostOfBytes(1)}, 2},
	} {
		groups = nil
		test.opts.Group = tenant
		test.opts.Policies = []Policy{test.policy}
		p := (&play{t: t}).over(newHookStore(t, test.apply), test.opts, nil, slidegate.PerMinute(1))
		p.do(request("X-Tenant: acme"))
		if len(groups) != test.requests {
			t.Errorf("%s: got %d calls to the store, want %d", test.name, len(groups), test.requests)
		}
		for _, group := range groups {
			if group != "acme" {
				t.Errorf("%s: got group %q, want acme", test.name, group)
			}
		}
	}
	p := newPlay(t, Options{Group: tenant}, nil, slidegate.PerMinute(1))
	for i, step := range []struct {
		tenant string
		status int
	}{{"acme", 200}, {"acme", 429}, {"other", 200}} {
		if got := p.do(request("X-Tenant: " + step.tenant)).Code; got != step.status {
			t.Errorf("step %d: got status %d, want %d", i, got, step.status)
		}
	}
}

// What a middleware reserved for a client that left while the store answered is cancelled: the handler never ran.
func TestReservationOfClientThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, trips := range []int{0, 1} {
			store := &lateStore{hookStore: newHookStore(t, func(context.Context, *store.Request) error { return nil })}
			store.trips = trips
			p := (&play{t: t}).over(store, Options{Policies: []Policy{{
				Name: "usd", Limits: []slidegate.Limit{slidegate.PerDay(10_000), slidegate.Slots(10, time.Hour)},
				Cost: func(*http.Request) int64 { return 2000 }, CostAfter: CostFromHandler(),
			}}}, nil)
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				start := time.Now()
				if w := p.do(newRequestFrom("192.0.2.1").WithContext(ctx)); w.Code != 503 || trips > 0 && time.Since(start) != 2*time.Millisecond {
					t.Errorf("got status %d after %v, want 503 when the client leaves", w.Code, time.Since(start))
				}
				cancel()
			}
			if err := p.limits.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			v, err := p.limits.Peek(t.Context(), "usd", "192.0.2.1")
			if err != nil || p.served != 0 || v.Decision.Answers[0].Remaining != 10_000 || v.Decision.Answers[1].Remaining != 10 {
				t.Errorf("%d round trips: served %d, left %+v, %v; want 10000 units and 10 slots", trips, p.served, v.Decision.Answers, err)
			}
		}
	})
}

// lateStore decides at once and answers 5ms later.
type lateStore struct{ *hookStore }

func (l *lateStore) Apply(ctx context.Context, batch []store.Request) error {
	if err := l.hookStore.Apply(ctx, batch); err != nil {
		return err
	}
	select {
	case <-time.After(5 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
