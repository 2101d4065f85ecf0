package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Bugs in all-or-nothing decisions, for one request alone and for concurrent requests.

func severalBugs() []bug {
	return []bug{
		{"charges limit by limit", "several-limits", deciding(func(r *Reference, request *store.Request) {
			for i := range request.Charges {
				r.decide(part(request, i))
			}
		})},
		{"charges, and gives back when a later limit refuses", "several-limits", deciding(givingBackLater)},
		{"counts the refusals of other limits", "several-limits", deciding(func(r *Reference, request *store.Request) {
			r.decide(request)
			if request.Op != rule.Take || allowed(request) {
				return
			}
			for i, charge := range request.Charges {
				if charge.Limit.Rule().CountRefused && request.Answers[i].Allowed {
					charged := part(request, i)
					charged.Op = rule.Charge
					r.decide(charged)
				}
			}
		})},
		{"grants each limit what it has left", "several-limits", deciding(func(r *Reference, request *store.Request) {
			for i := range request.Charges {
				if request.Op != rule.TakeUpTo {
					r.decide(request)
					return
				}
				r.decide(part(request, i))
			}
		})},
		{"decides only the first four limits", "several-limits", deciding(func(r *Reference, request *store.Request) {
			few := *request
			few.Charges = request.Charges[:min(4, len(request.Charges))]
			few.Answers = request.Answers[:len(few.Charges)]
			r.decide(&few)
			for i := len(few.Charges); i < len(request.Charges); i++ {
				r.decide(part(request, i))
			}
		})},
	}
}

func allowed(request *store.Request) bool {
	for _, answer := range request.Answers {
		if !answer.Allowed {
			return false
		}
	}
	return true
}

// givingBackLater undoes its charge, which leaves a trace: the window has begun.
func givingBackLater(r *Reference, request *store.Request) {
	if request.Op != rule.Take {
		r.decide(request)
		return
	}
	for i := range request.Charges {
		one := part(request, i)
		if r.decide(one); one.Answers[0].Allowed {
			continue
		}
		for j := range i {
			back := newRequest(rule.GiveBack, request.Group, request.Charges[j])
			back.Charges[0].At = request.Answers[j].At
			r.decide(&back)
		}
		refused := *request
		refused.Op = rule.Peek
		r.decide(&refused)
		return
	}
}

func raceBugs() []bug {
	return []bug{
		{"checks first and charges later", "race", deciding(checkingFirst)},
		{"writes back an old copy", "race", deciding(func(r *Reference, request *store.Request) {
			writingBack(r, request)
		})},
		{"loses units given back concurrently", "race", deciding(func(r *Reference, request *store.Request) {
			if request.Op == rule.GiveBack {
				writingBack(r, request)
			} else {
				r.decide(request)
			}
		})},
		{"grants a part without a lock", "race", deciding(func(r *Reference, request *store.Request) {
			if request.Op == rule.TakeUpTo {
				writingBack(r, request)
			} else {
				r.decide(request)
			}
		})},
	}
}

// checkingFirst is the most common race of all: between its check and its charge, other requests have checked too.
func checkingFirst(r *Reference, request *store.Request) {
	if request.Op != rule.Take {
		r.decide(request)
		return
	}
	look := newRequest(rule.Peek, request.Group, request.Charges...)
	r.decide(&look)
	yield()
	if allowed(&look) {
		look.Op = rule.Charge
		r.decide(&look)
	}
	copy(request.Answers, look.Answers)
}

// writingBack decides on copies without the lock.
func writingBack(r *Reference, request *store.Request) {
	items := make([]rule.Item, len(request.Charges))
	names := make([]string, len(request.Charges))
	r.mu.Lock()
	for i, charge := range request.Charges {
		names[i] = address(charge.Limit.Prefix(), request.Group, charge.Key)
		state := r.states[names[i]].Clone()
		items[i] = rule.Item{Limit: charge.Limit.Rule(), State: &state, Cost: charge.Cost, At: charge.At}
	}
	now := r.clock.Now()
	r.mu.Unlock()
	yield()
	rule.Decide(request.Op, items, now, request.Answers)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range items {
		if items[i].Changed {
			r.states[names[i]] = *items[i].State
		}
	}
}

func raceSeveralBugs() []bug {
	return []bug{
		{"checks first and charges later", "race-several-limits", deciding(checkingFirst)},
		{"writes back an old copy", "race-several-limits", deciding(writingBack)},
		{"lets others peek between two charges", "race-several-limits", plant(lettingPeek)},
		{"deadlocks on keys in opposite orders", "race-several-limits", openLocking},
	}
}

// lettingPeek has a lock for requests that write, which peeks do not take.
func lettingPeek(r *Reference) applyFunc {
	var writers sync.Mutex
	return func(ctx context.Context, batch []store.Request) error {
		request := &batch[0]
		if request.Op != rule.Take || len(request.Charges) == 1 {
			return r.Apply(ctx, batch)
		}
		writers.Lock()
		defer writers.Unlock()
		look := newRequest(rule.Peek, request.Group, request.Charges...)
		if r.decide(&look); !allowed(&look) {
			return r.Apply(ctx, batch)
		}
		for i := range request.Charges {
			r.decide(part(request, i))
			yield()
		}
		request.Err = nil
		return nil
	}
}

// openLocking opens stores that lock the keys of a request one by one, in the order of its charges.
func openLocking(_ testing.TB, clock *Clock) store.Store {
	var (
		mu    sync.Mutex
		locks = map[string]chan struct{}{}
		r     = NewReference(clock)
	)
	lockOf := func(name string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if locks[name] == nil {
			locks[name] = make(chan struct{}, 1)
		}
		return locks[name]
	}
	return &planted{Reference: r, apply: func(ctx context.Context, batch []store.Request) error {
		for _, charge := range batch[0].Charges {
			lock := lockOf(address(charge.Limit.Prefix(), batch[0].Group, charge.Key))
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
			case <-ctx.Done():
				batch[0].Err = ctx.Err()
				return ctx.Err()
			}
			yield()
		}
		return r.Apply(ctx, batch)
	}}
}
