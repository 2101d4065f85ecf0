package storetest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bugs in decisions about a single request: traits, rule, clock, TakeSingle, giving back, reading, expiry.

type oddTraits struct {
	*Reference
	traits store.Traits
	check  func(limit *store.Limit) error
}

func (o oddTraits) Traits() store.Traits { return o.traits }

func (o oddTraits) Check(limit *store.Limit) error {
	if o.check == nil {
		return nil
	}
	return o.check(limit)
}

func traitBugs() []bug {
	odd := func(traits store.Traits, check func(limit *store.Limit) error) Open {
		return func(_ testing.TB, clock *Clock) store.Store { return oddTraits{NewReference(clock), traits, check} }
	}
	sane := store.Traits{Name: "odd", MaxCharges: 10}
	calls := 0
	return []bug{
		{"supports no charge", "traits", odd(store.Traits{Name: "odd"}, nil)},
		{"has no name", "traits", odd(store.Traits{MaxCharges: 1}, nil)},
		{"rejects limits with the wrong error", "traits", odd(sane, func(limit *store.Limit) error {
			if limit.Rule().CountRefused {
				return errors.New("odd: no")
			}
			return nil
		})},
		{"rejects every limit", "traits", odd(sane, func(*store.Limit) error { return store.ErrUnsupported })},
		{"rejects limits at random", "traits", odd(sane, func(*store.Limit) error {
			if calls++; calls%3 == 0 {
				return store.ErrUnsupported
			}
			return nil
		})},
	}
}

func ruleBugs() []bug {
	return []bug{
		{"forgets a key when time goes backwards", "rule", preparing(
			func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
				state := r.states[address]
				if l.Parts() > 0 && len(state.Counts) > 0 && state.Start > now {
					delete(r.states, address)
				}
			})},
		{"rounds RetryAfter up to milliseconds", "rule", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
				if a.RetryAfter != rule.Never {
					a.RetryAfter = (a.RetryAfter + 999) / 1000 * 1000
				}
			})},
		{"counts ResetAfter from the state's own time", "rule", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, now rule.Micros) {
				a.ResetAfter -= a.At - now
			})},
		{"does not report when the next unit is free", "rule", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) { a.NextAfter = 0 })},
		{"reports the next slot too early", "rule", misanswering(
			func(_ rule.Op, charge store.Charge, a *rule.Answer, _ rule.Micros) {
				if charge.Limit.Rule().Algorithm == rule.InFlight && a.NextAfter > 0 {
					a.NextAfter--
				}
			})},
		{"rounds large numbers", "rule", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
				a.Remaining = int64(float32(a.Remaining))
			})},
		{"admits one unit too many per millisecond", "rule", misreading(func(request *store.Request) {
			for i := range request.Charges {
				if c := &request.Charges[i]; c.Limit.Rule().Window == rule.Micros(1_000) && c.Cost > 1 {
					c.Cost--
				}
			}
		})},
		{"does not report that the clock was moved", "rule", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, _ rule.Micros) {
				a.Flags &^= rule.ClockMoved
			})},
		{"confuses take and take-up-to", "rule", misreading(func(request *store.Request) {
			if request.Op == rule.TakeUpTo {
				request.Op = rule.Take
			}
		})},
	}
}

func clockBugs() []bug {
	return []bug{
		{"reads the clock once per charge", "clock", misanswering(
			func(_ rule.Op, _ store.Charge, a *rule.Answer, now rule.Micros) { a.At = now })},
		{"reads the clock before it holds the lock", "clock", deciding(readingFirst)},
	}
}

func readingFirst(r *Reference, request *store.Request) {
	now := r.clock.Now()
	yield()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decideLocked(request, now)
}

// yield lets other goroutines go first, so that a race that can be lost is lost.
func yield() {
	for range 10 {
		runtime.Gosched()
	}
}

func singleTakerBugs() []bug {
	taking := func(takeOne func(r *Reference, request *store.Request)) Open {
		return func(_ testing.TB, clock *Clock) store.Store {
			r := NewReference(clock)
			return &planted{r, r.Apply, func(_ context.Context, batch []store.Request) error {
				takeOne(r, &batch[0])
				return nil
			}}
		}
	}
	return []bug{
		{"keeps separate counts for TakeSingle", "single-taker", taking(func(r *Reference, request *store.Request) {
			request.Group = "one"
			r.decide(request)
		})},
		{"does not count refusals in TakeSingle", "single-taker", taking(func(r *Reference, request *store.Request) {
			request.Op = rule.Peek
			if r.decide(request); request.Answers[0].Allowed {
				request.Op = rule.Take
				r.decide(request)
			}
		})},
	}
}

func giveBackBugs() []bug {
	return append(verbBugs("give-back"), []bug{
		{"gives back to the current part", "give-back", misreading(func(request *store.Request) {
			for i := range request.Charges {
				if request.Charges[i].At != rule.Oldest {
					request.Charges[i].At = rule.MaxNow
				}
			}
		})},
		{"forgets counts but keeps their time", "give-back", deciding(func(r *Reference, request *store.Request) {
			if r.decide(request); request.Op != rule.Reset {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, charge := range request.Charges {
				roll(r, charge.Limit.Rule(), address(charge.Limit.Prefix(), request.Group, charge.Key), r.clock.Now())
			}
		})},
		{"gives credit", "give-back", deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			r.mu.Lock()
			defer r.mu.Unlock()
			for i, charge := range request.Charges {
				state := r.states[address(charge.Limit.Prefix(), request.Group, charge.Key)]
				if request.Op == rule.GiveBack && len(state.Counts) > 0 {
					state.Counts[0] -= charge.Cost - request.Answers[i].Granted
				}
			}
		})},
		{"reports that it gave back more than was charged", "give-back", misanswering(
			func(op rule.Op, charge store.Charge, a *rule.Answer, _ rule.Micros) {
				if op == rule.GiveBack {
					a.Granted = charge.Cost
				}
			})},
	}...)
}

func limiterBugs() []bug { return verbBugs("limiter") }

// verbBugs are operations that do not do what they report, which several checks must find.
func verbBugs(check string) []bug {
	return []bug{
		{"always gives back the oldest units", check, misreading(func(request *store.Request) {
			for i := range request.Charges {
				request.Charges[i].At = rule.Oldest
			}
		})},
		{"charges no more than fits", check, misreading(func(request *store.Request) {
			if request.Op == rule.Charge {
				request.Op = rule.Take
			}
		})},
		{"forgets to reset", check, misreading(func(request *store.Request) {
			if request.Op == rule.Reset {
				request.Op = rule.Peek
			}
		})},
	}
}

// roll writes a state as if a unit had been charged and given back, like a store that rolls before it decides.
func roll(r *Reference, l *rule.Limit, address string, now rule.Micros) {
	state := r.states[address].Clone()
	items, answers := []rule.Item{{Limit: l, State: &state, Cost: 1, ID: 1}}, make([]rule.Answer, 1)
	rule.Decide(rule.Charge, items, now, answers)
	items[0].At = answers[0].At
	rule.Decide(rule.GiveBack, items, now, answers)
	r.states[address] = state
}

func readOnlyBugs() []bug {
	rolling := func(when func(request *store.Request) bool) Open {
		return deciding(func(r *Reference, request *store.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			now := r.clock.Now()
			r.decideLocked(request, now)
			for _, charge := range request.Charges {
				if when(request) {
					roll(r, charge.Limit.Rule(), address(charge.Limit.Prefix(), request.Group, charge.Key), now)
				}
			}
		})
	}
	return []bug{
		{"writes when it peeks", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.Peek
		})},
		{"writes when it refuses", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.Take && !request.Answers[0].Allowed
		})},
		{"writes when it refuses a take-up-to", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.TakeUpTo && !request.Answers[0].Allowed
		})},
		{"writes when it gives nothing back", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.GiveBack && request.Answers[0].Granted == 0
		})},
		{"writes when it refuses a single take", "read-only", func(t testing.TB, clock *Clock) store.Store {
			refusing := rolling(func(request *store.Request) bool { return !request.Answers[0].Allowed })(t, clock).(*planted)
			return &planted{Reference: refusing.Reference, apply: refusing.Reference.Apply, takeOne: refusing.apply}
		}},
		{"writes when another limit refuses", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.Take && len(request.Charges) > 1 && !allowed(request)
		})},
		{"begins a window when another limit refuses", "read-only", deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			if len(request.Charges) == 1 || request.Op != rule.TakeUpTo || allowed(request) {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, charge := range request.Charges {
				name := address(charge.Limit.Prefix(), request.Group, charge.Key)
				if _, there := r.states[name]; !there {
					roll(r, charge.Limit.Rule(), name, r.clock.Now())
				}
			}
		})},
		{"writes when the cost is zero", "read-only", rolling(func(request *store.Request) bool {
			return request.Op == rule.Take && request.Charges[0].Cost == 0
		})},
	}
}

func expiryBugs() []bug {
	forgetting := func(gone func(l *rule.Limit, state *rule.State, now rule.Micros) bool) Open {
		return preparing(func(r *Reference, l *rule.Limit, address string, now rule.Micros) {
			if state, there := r.states[address]; there && gone(l, &state, now) {
				delete(r.states, address)
			}
		})
	}
	var written []string
	return []bug{
		{"forgets a microsecond early", "expiry", forgetting(func(l *rule.Limit, s *rule.State, now rule.Micros) bool {
			return now >= l.Expires(s)-1
		})},
		{"forgets after one window", "expiry", forgetting(func(l *rule.Limit, s *rule.State, now rule.Micros) bool {
			return l.Parts() > 0 && len(s.Counts) > 0 && now >= s.Start+l.Window
		})},
		{"forgets overdrawn buckets after one window", "expiry", forgetting(
			func(l *rule.Limit, s *rule.State, now rule.Micros) bool {
				return l.Algorithm == rule.TokenBucket && now >= l.Expires(s)-l.Window
			})},
		{"forgets the least recently written key when there are many", "expiry", preparing(
			func(r *Reference, _ *rule.Limit, address string, _ rule.Micros) {
				if written = append(written, address); len(r.states) > 10 {
					delete(r.states, written[0])
					written = written[1:]
				}
			})},
	}
}
