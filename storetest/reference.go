package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/settled"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Reference is the simplest possible Store: one lock, one map, the rule. It never forgets anything, so it is for tests
// only. It is safe for concurrent use. The zero value is not usable; call NewReference.
type Reference struct {
	store.Registry

	clock *Clock

	mu      sync.Mutex
	states  map[string]rule.State // by address
	settled map[string]*[2]generation
}

// generation is one of the two generations of what is remembered at an address; the first is the newer one.
type generation struct {
	settled.Generation
	records map[rule.ID][]int64
}

// NewReference returns an empty store that decides by clock.
func NewReference(clock *Clock) *Reference {
	return &Reference{clock: clock, states: map[string]rule.State{}, settled: map[string]*[2]generation{}}
}

// Apply decides the requests in order.
func (r *Reference) Apply(ctx context.Context, batch []store.Request) error {
	var first error
	for i := range batch {
		request := &batch[i]
		if request.Err = contextError(ctx); request.Err == nil {
			r.decide(request)
		} else if first == nil {
			first = request.Err
		}
	}
	return first
}

// TakeSingle decides a request with a single charge.
func (r *Reference) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	var answers [1]rule.Answer
	err = r.Apply(ctx, []store.Request{{
		Op: rule.Take, Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: answers[:],
	}})
	a := answers[0]
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, err
}

// Check accepts every limit: the rule itself decides here, not a port of it.
func (r *Reference) Check(*store.Limit) error { return nil }

// Traits reports what the store can do.
func (r *Reference) Traits() store.Traits {
	return store.Traits{Name: "reference", MaxCharges: 1_000}
}

// decide reads the clock only once it holds the lock: a request that read it before would decide by a time older than that
// of requests already decided.
func (r *Reference) decide(request *store.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decideLocked(request, r.clock.Now())
}

// Inspect returns the state at an address, and the time.
func (r *Reference) Inspect(ctx context.Context, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[address(limit.Prefix(), group, key)].Clone(), r.clock.Now(), contextError(ctx)
}

// decideLocked passes copies of the states to the rule and stores those that changed.
func (r *Reference) decideLocked(request *store.Request, now rule.Micros) {
	addresses := make([]string, len(request.Charges))
	states := make([]rule.State, len(request.Charges))
	items := make([]rule.Item, len(request.Charges))
	for i, charge := range request.Charges {
		addresses[i] = address(charge.Limit.Prefix(), request.Group, charge.Key)
		states[i] = r.states[addresses[i]].Clone()
		items[i] = rule.Item{
			Limit: charge.Limit.Rule(), State: &states[i], Cost: charge.Cost, Used: charge.Used, At: charge.At, ID: request.ID,
			Hold: request.Hold,
		}
	}
	if request.Op == rule.Settle || request.Once {
		r.onceLocked(addresses[0], items, now, request)
	} else {
		rule.Decide(request.Op, items, now, request.Answers)
	}
	for i := range items {
		if items[i].Changed {
			r.states[addresses[i]] = states[i]
		}
	}
}

// onceLocked settles a reservation, or makes a call, unless that was done before, and remembers it with the states.
func (r *Reference) onceLocked(first string, items []rule.Item, now rule.Micros, request *store.Request) {
	length, most := request.Memory()
	if length == 0 { // it need not be remembered
		rule.DecideOnce(request.Op, request.Once, items, &rule.Memo{}, now, request.Answers)
		return
	}
	settled := r.settled[first]
	if settled == nil {
		settled = &[2]generation{{records: map[rule.ID][]int64{}}}
		r.settled[first] = settled
	}
	var memo rule.Memo
	for _, g := range settled {
		if record, known := g.records[request.ID]; known { // a settlement in the newer one replaces its call in the older one
			memo = rule.Memo{Known: true, Record: record}
			break
		}
	}
	at := rule.SettledAt(items, now)
	newer := &settled[0]
	rotates := newer.Rotates(at, length, most)
	memo.Full = !memo.Known && !rotates && newer.Count >= most
	if rule.DecideOnce(request.Op, request.Once, items, &memo, now, request.Answers); !memo.Changed {
		return
	}
	if rotates {
		*settled = [2]generation{{newer.Next(), map[rule.ID][]int64{}}, *newer}
	}
	newer.Add(at, length)
	newer.records[request.ID] = memo.Record
	newer.Count = int64(len(newer.records))
}

// expires returns the time from which any store may have forgotten the state at an address, and whether there is one.
func (r *Reference) expires(limit *store.Limit, group, key string) (at rule.Micros, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	state, ok := r.states[address(limit.Prefix(), group, key)]
	if !ok {
		return 0, false
	}
	at = limit.Rule().Expires(&state)
	return at, at > 0
}

// mayReturn reports whether a store may have forgotten a state by latest that would count again at now, because the clock goes back: all of
// it, or what was used before something was held.
func (r *Reference) mayReturn(limit *store.Limit, group, key string, latest, now rule.Micros) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.states[address(limit.Prefix(), group, key)]
	all := limit.Rule().Expires(&state)
	state.Holds = nil
	used := limit.Rule().Expires(&state)
	return all <= latest && now < all || used <= latest && now < used
}

// address encodes a state's address unambiguously: no prefix begins with another, the group is preceded by its length, and
// the key is the rest.
func address(prefix, group, key string) string {
	joined := binary.AppendUvarint([]byte(prefix), uint64(len(group)))
	joined = append(joined, group...)
	return string(append(joined, key...))
}

func contextError(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("storetest: %w", err)
	}
	return nil
}
