// Package mapstore is a store in a map: the shortest one that fulfills the contract. It never forgets a key, so it is an
// example to read, not to use.
package mapstore

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Store is a store.Store in this process. It is safe for concurrent use. The zero value is not usable; call New.
type Store struct {
	store.Registry // reports two limiters that would share counts by mistake

	now     func() rule.Micros
	mu      sync.Mutex
	states  map[string]rule.State
	settled map[string]map[rule.ID]settlement // by address and reservation
}

// settlement is what settling a reservation gave back, and when.
type settlement struct {
	back []int64
	at   rule.Micros
}

// New returns an empty store that decides by the clock now.
func New(now func() rule.Micros) *Store {
	return &Store{now: now, states: map[string]rule.State{}, settled: map[string]map[rule.ID]settlement{}}
}

// Traits reports what the store can do.
func (s *Store) Traits() store.Traits { return store.Traits{Name: "map", MaxCharges: 64} }

// Check accepts every limit: package rule decides, and it supports them all.
func (s *Store) Check(*store.Limit) error { return nil }

// Apply decides the requests in order.
func (s *Store) Apply(ctx context.Context, batch []store.Request) (first error) {
	for i := range batch {
		request := &batch[i]
		if request.Err = ctx.Err(); request.Err == nil {
			s.decide(request)
		} else if first == nil {
			first = request.Err
		}
	}
	return first
}

// decide loads the states of a request, lets the rule decide, and stores the states that changed.
func (s *Store) decide(request *store.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addresses := make([]string, len(request.Charges))
	states := make([]rule.State, len(request.Charges))
	items := make([]rule.Item, len(request.Charges))
	for i, c := range request.Charges {
		// No prefix begins with another, so different addresses have different encodings.
		addresses[i] = fmt.Sprintf("%s%d:%s%s", c.Limit.Prefix(), len(request.Group), request.Group, c.Key)
		states[i] = s.states[addresses[i]].Clone() // a copy: the map is updated below if the rule changed it
		items[i] = rule.Item{Limit: c.Limit.Rule(), State: &states[i], Cost: c.Cost, Used: c.Used, At: c.At, ID: request.ID}
	}
	now := s.now() // inside the lock: an earlier reading could be older than what other requests have written
	if request.Op == rule.Settle {
		s.settle(addresses[0], request.ID, items, now, request.Answers)
	} else {
		rule.Decide(request.Op, items, now, request.Answers)
	}
	for i := range items {
		if items[i].Changed {
			s.states[addresses[i]] = states[i]
		}
	}
}

// settle settles a reservation once, and answers later calls with the first result, for as long as its units count, and longer
// while there is space.
func (s *Store) settle(address string, id rule.ID, items []rule.Item, now rule.Micros, answers []rule.Answer) {
	var keep rule.Micros
	var most int64
	for i := range items {
		keep, most = max(keep, items[i].Limit.Memory()), max(most, items[i].Limit.Settlements())
	}
	if s.settled[address] == nil {
		s.settled[address] = map[rule.ID]settlement{}
	}
	remembered := s.settled[address]
	at := rule.SettledAt(items, now)
	maps.DeleteFunc(remembered, func(_ rule.ID, old settlement) bool {
		age := at - old.at
		return age >= keep && (age >= rule.LongMemory || int64(len(remembered)) >= most)
	})
	first, known := remembered[id]
	memo := rule.Memo{Known: known, Record: first.back, Full: !known && int64(len(remembered)) >= most}
	if rule.DecideOnce(rule.Settle, false, items, &memo, now, answers); memo.Changed && keep > 0 {
		remembered[id] = settlement{memo.Record, at}
	}
}
