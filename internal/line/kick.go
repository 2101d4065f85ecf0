package line

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// watched are the lines that sleep, by each of their addresses, so that what is returned in this process wakes them.
var watched struct {
	n     atomic.Int64
	mu    sync.Mutex
	lines map[identity][]*queue
}

// Returned wakes the lines that wait for addresses of which units or slots were returned, or which were reset.
func Returned(scope any, group string, charges []store.Charge) {
	if watched.n.Load() == 0 {
		return
	}
	for i := range charges {
		id := addressOf(scope, group, &charges[i])
		watched.mu.Lock()
		lines := slices.Clone(watched.lines[id])
		watched.mu.Unlock()
		for _, q := range lines {
			q.prompt()
		}
	}
}

// ReturnedAfter is Returned as soon as the channel is closed, unless it is nil.
func ReturnedAfter(cancelled <-chan struct{}, scope any, group string, charges []store.Charge) {
	if cancelled == nil {
		return
	}
	charges = slices.Clone(charges)
	go func() {
		<-cancelled
		Returned(scope, group, charges)
	}()
}

// ReturnedBy is Returned for requests that were sent to a store, as far as they returned something.
func ReturnedBy(on store.Store, requests []store.Request) {
	if watched.n.Load() == 0 {
		return
	}
	for i := range requests {
		if r := &requests[i]; r.Op == rule.GiveBack || r.Op == rule.Settle || r.Op == rule.Reset {
			Returned(Scope(on, nil), r.Group, r.Charges)
		}
	}
}

// prompt makes the first in line ask now.
func (q *queue) prompt() {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if q.asking {
		q.again = true
	} else if q.lead != nil {
		q.due, q.planned, q.free = time.Time{}, false, false
		q.lead.notify()
	}
}

func addressOf(scope any, group string, charge *store.Charge) identity {
	text := appendText(nil, group)
	return identity{scope, string(appendText(append(text, charge.Limit.Prefix()...), charge.Key))}
}

// watch lets returns wake the line, also those that come while the store is asked.
func (q *queue) watch() {
	if q.watched {
		return
	}
	q.watched = true
	for i := range q.lead.request.Charges {
		q.addresses = append(q.addresses, addressOf(q.id.scope, q.lead.request.Group, &q.lead.request.Charges[i]))
	}
	q.eachAddress(func(id identity) {
		if watched.lines == nil {
			watched.lines = map[identity][]*queue{}
		}
		watched.lines[id] = append(watched.lines[id], q)
		watched.n.Add(1)
	})
}

func (q *queue) unwatch() {
	if !q.watched {
		return
	}
	q.watched = false
	q.eachAddress(func(id identity) {
		rest := slices.DeleteFunc(watched.lines[id], func(other *queue) bool { return other == q })
		if len(rest) == 0 {
			delete(watched.lines, id)
		} else {
			watched.lines[id] = rest
		}
		watched.n.Add(-1)
	})
}

func (q *queue) eachAddress(use func(identity)) {
	watched.mu.Lock()
	defer watched.mu.Unlock()
	for _, id := range q.addresses {
		use(id)
	}
}
