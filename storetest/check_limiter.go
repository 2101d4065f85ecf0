package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// checkLimiter: every method of a Limiter over the store does what it does over the reference. Corrections of a charge are
// made even if the caller has gone.
func checkLimiter(t testing.TB, s *suite) {
	p := s.pair(t)
	for i, limit := range smallLimits() {
		limit.Name, limit.Quota = fmt.Sprintf("limiter-%d", i), 10
		if p.bind(limit) == nil {
			continue
		}
		p.title = limit.String()
		ours, theirs := newLimiterScript(p, p.store, limit), newLimiterScript(p, p.reference, limit)
		for _, step := range limiterSteps() {
			p.clock.Advance(rule.Micros(step.after.Microseconds()))
			got, gotErr := step.run(ours)
			want, wantErr := step.run(theirs)
			if gotErr != nil || wantErr != nil {
				p.fatalf("%s failed: %v; with the reference: %v", step.name, gotErr, wantErr)
			}
			got.Flags &^= rule.Inherited
			if !reflect.DeepEqual(got, want) {
				p.fatalf("%s decides differently\n store:     %+v\n reference: %+v", step.name, got, want)
			}
		}
		if _, err := ours.limiter.Allow(ours.gone, "gone"); !errors.Is(err, context.Canceled) {
			p.fatalf("Allow with a context that has ended returned %v, want its error", err)
		}
		checkWait(p, ours.limiter, limit)
	}
}

// limiterScript is a limiter and what a caller would remember of it.
type limiterScript struct {
	ctx         context.Context
	gone        context.Context // context of a caller that has gone
	limiter     *slidegate.Limiter
	elsewhere   *slidegate.Limiter // a limiter in another process, which settles what this one reserved
	reservation slidegate.Reservation
	limit       string // the limit's name
}

func newLimiterScript(p *pair, store store.Store, limit slidegate.Limit) *limiterScript {
	p.t.Helper()
	s := &limiterScript{ctx: context.Background(), limit: limit.Name}
	gone, cancel := context.WithCancel(s.ctx)
	cancel()
	s.gone = gone
	for _, limiter := range []**slidegate.Limiter{&s.limiter, &s.elsewhere} {
		made, err := slidegate.New(slidegate.Namespace(store, p.namespace), limit)
		if err != nil {
			p.fatalf("no limiter: %v", err)
		}
		*limiter = made
	}
	return s
}

func (s *limiterScript) peek(err error) (slidegate.Decision, error) {
	if err != nil {
		return slidegate.Decision{}, err
	}
	return s.limiter.Peek(s.ctx, "user", 1)
}

func (s *limiterScript) reserve(n int64) (d slidegate.Decision, err error) {
	s.reservation, d, err = s.limiter.Reserve(s.ctx, "user", n)
	return d, err
}

type limiterStep struct {
	name  string
	after time.Duration
	run   func(s *limiterScript) (slidegate.Decision, error)
}

func (s *limiterScript) settled(_ slidegate.Settlement, err error) (slidegate.Decision, error) {
	return s.peek(err)
}

func limiterSteps() []limiterStep {
	type decision = slidegate.Decision
	return []limiterStep{
		{"Allow", 0, func(s *limiterScript) (decision, error) { return s.limiter.Allow(s.ctx, "user") }},
		{"AllowN", time.Second, func(s *limiterScript) (decision, error) { return s.limiter.AllowN(s.ctx, "user", 3) }},
		{"Allow another", 0, func(s *limiterScript) (decision, error) { return s.limiter.AllowN(s.ctx, "other", 10) }},
		{"AllowUpTo", time.Second, func(s *limiterScript) (decision, error) { return s.limiter.AllowUpTo(s.ctx, "user", 100) }},
		{"Allow when full", 0, func(s *limiterScript) (decision, error) { return s.limiter.Allow(s.ctx, "user") }},
		{"Never", 0, func(s *limiterScript) (decision, error) { return s.limiter.AllowN(s.ctx, "user", 11) }},
		{"Reserve when full", 0, func(s *limiterScript) (decision, error) { return s.reserve(2) }},
		{"Refund", time.Second, func(s *limiterScript) (decision, error) { return s.limiter.Refund(s.gone, "user", 8) }},
		{"Peek", 0, func(s *limiterScript) (decision, error) { return s.limiter.Peek(s.ctx, "user", 9) }},
		{"Reset", 0, func(s *limiterScript) (decision, error) { return s.peek(s.limiter.Reset(s.ctx, "user")) }},
		{"Allow and reserve", 0, func(s *limiterScript) (decision, error) { return s.limiter.AllowN(s.ctx, "user", 3) }},
		{"Reserve", 20 * time.Second, func(s *limiterScript) (decision, error) { return s.reserve(6) }},
		{"Settle for less", 15 * time.Second, func(s *limiterScript) (decision, error) {
			return s.settled(s.elsewhere.Settle(s.gone, s.reservation, slidegate.Used{Limit: s.limit, Cost: 2}))
		}},
		{"Reserve again", time.Second, func(s *limiterScript) (decision, error) { return s.reserve(5) }},
		{"Settle for more", time.Second, func(s *limiterScript) (decision, error) {
			return s.settled(s.elsewhere.SettleAll(s.gone, s.reservation, 14))
		}},
		{"Reset an overdrawn key", time.Second, func(s *limiterScript) (decision, error) {
			return s.peek(s.limiter.Reset(s.ctx, "user"))
		}},
		{"Charge", time.Second, func(s *limiterScript) (decision, error) { return s.limiter.Charge(s.gone, "user", 13) }},
		{"Allow when overdrawn", time.Second, func(s *limiterScript) (decision, error) { return s.limiter.Allow(s.ctx, "user") }},
		{"Reset what was charged", time.Second, func(s *limiterScript) (decision, error) {
			return s.peek(s.limiter.Reset(s.ctx, "user"))
		}},
		{"Reserve all", time.Second, func(s *limiterScript) (decision, error) { return s.reserve(10) }},
		{"Cancel", time.Second, func(s *limiterScript) (decision, error) {
			return s.settled(s.elsewhere.Cancel(s.gone, s.reservation))
		}},
		{"Reserve and leave", time.Second, func(s *limiterScript) (decision, error) { return s.reserve(10) }},
		{"Cancel too late", 3 * time.Minute, func(s *limiterScript) (decision, error) {
			return s.settled(s.limiter.Cancel(s.ctx, s.reservation))
		}},
	}
}

// checkWait: Wait returns immediately if it can, and otherwise as soon as the store's clock has reached the time.
func checkWait(p *pair, limiter *slidegate.Limiter, limit slidegate.Limit) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), p.suite.timeout)
	defer cancel()
	if err := limiter.Wait(ctx, "waiter", limit.Quota); err != nil {
		p.fatalf("Wait failed with the whole quota free: %v", err)
	}
	if err := limiter.Wait(ctx, "waiter", limit.Quota+1); !errors.Is(err, slidegate.ErrNever) {
		p.fatalf("Wait for more than the quota returned %v, want ErrNever", err)
	}
	short, cancelShort := context.WithTimeout(ctx, time.Millisecond)
	defer cancelShort()
	if err := limiter.Wait(short, "waiter", limit.Quota); !errors.Is(err, context.DeadlineExceeded) {
		p.fatalf("Wait beyond the deadline returned %v, want context.DeadlineExceeded", err)
	}
	limit.Window = divisible(time.Millisecond, limit.Segments)
	quick, err := limiter.With(limit)
	if err != nil {
		p.fatalf("no limiter: %v", err)
	}
	if err := quick.Wait(ctx, "waiter", limit.Quota); err != nil {
		p.fatalf("Wait failed with the whole quota free: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- quick.Wait(ctx, "waiter", limit.Quota) }()
	p.clock.Advance(3 * rule.Micros(limit.Window.Microseconds()))
	if err := <-waited; err != nil {
		p.fatalf("Wait failed when its time had come: %v", err)
	}
}
