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

	now    func() rule.Micros
	mu     sync.Mutex
	states map[string]rule.State
	once   map[string]map[rule.ID]remembered // by address and ID
}

// remembered is what a call or a settlement did, and until when it must be remembered.
type remembered struct {
	record    []int64
	at, until rule.Micros
}

// New returns an empty store that decides by the clock now.
func New(now func() rule.Micros) *Store {
	return &Store{now: now, states: map[string]rule.State{}, once: map[string]map[rule.ID]remembered{}}
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
		items[i] = rule.Item{Limit: c.Limit.Rule(), State: &states[i], Cost: c.Cost, Used: c.Used, At: c.At, ID: request.ID, Hold: request.Hold}
	}
	now := s.now() // inside the lock: an earlier reading could be older than what other requests have written
	if request.Op == rule.Settle || request.Once {
		s.decideOnce(addresses[0], request, items, now)
	} else {
		rule.Decide(request.Op, items, now, request.Answers)
	}
	for i := range items {
		if items[i].Changed {
			s.states[addresses[i]] = states[i]
		}
	}
}

// decideOnce decides a call or a settlement once, and answers later ones with the first result, for as long as the request says, and
// longer while there is space.
func (s *Store) decideOnce(address string, request *store.Request, items []rule.Item, now rule.Micros) {
	memory, most := request.Memory()
	if s.once[address] == nil {
		s.once[address] = map[rule.ID]remembered{}
	}
	known, at := s.once[address], rule.SettledAt(items, now)
	maps.DeleteFunc(known, func(_ rule.ID, old remembered) bool {
		return at >= old.until && (at-old.at >= rule.LongMemory || int64(len(known)) >= most)
	})
	first, found := known[request.ID]
	memo := rule.Memo{Known: found, Record: first.record, Full: memory > 0 && !found && int64(len(known)) >= most}
	rule.DecideOnce(request.Op, request.Once, items, &memo, now, request.Answers)
	if memo.Changed && memory > 0 {
		known[request.ID] = remembered{memo.Record, at, at + memory}
	}
}
