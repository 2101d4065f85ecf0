package line

import (
	"context"
	"encoding/binary"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// shard has the lines of a part of all addresses. Its lock is that of its lines too, and is never held while the store is asked.
type shard struct {
	mu    sync.Mutex
	lines map[identity]*queue
}

// identity is what the requests of a line have in common.
type identity struct {
	scope     any
	addresses string
}

var shards [64]shard

func init() {
	for i := range shards {
		shards[i].lines = map[identity]*queue{}
	}
}

// place returns where the line of a request is. The quotas are not part of it: requests of several classes stand in one line.
func place(r *Request) (*shard, identity) {
	var buffer [256]byte
	text := appendText(buffer[:0], r.Group)
	for i := range r.Charges {
		text = appendText(append(text, r.Charges[i].Limit.Prefix()...), r.Charges[i].Key)
	}
	return shardOf(r), identity{r.Scope, string(text)}
}

func shardOf(r *Request) *shard {
	first := &r.Charges[0]
	return &shards[first.Limit.Hash(r.Group, first.Key)%uint64(len(shards))]
}

// isIdle reports whether nobody waits in a line of the shard.
func (s *shard) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines) == 0
}

// Scope returns what identifies the counts of a store: the store below all layers or, if it cannot be compared, other.
func Scope(of store.Store, other any) any {
	for {
		wrapper, wraps := of.(store.Wrapper)
		if !wraps {
			break
		}
		of = wrapper.Unwrap()
	}
	if value := reflect.ValueOf(of); !value.IsValid() || !value.Comparable() {
		return other
	}
	return of
}

func appendText(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// waiter is a request in line.
type waiter struct {
	request  *Request
	costs    []int64
	room     [2]int64 // for costs
	rank     int64
	deadline time.Time // zero if there is none
	since    time.Time

	wake   chan struct{}
	class  *class
	before *waiter
	behind *waiter

	done   bool // it was served, or err says why not
	unsure bool // only the store knows whether it will be served before its deadline
	err    error
}

func newWaiter(ctx context.Context, r *Request) *waiter {
	w := &waiter{request: r, wake: make(chan struct{}, 1), since: time.Now()}
	w.deadline, _ = ctx.Deadline()
	w.costs = w.room[:0]
	for i := range r.Charges {
		w.costs = append(w.costs, r.Charges[i].Cost)
		w.rank += r.Charges[i].Limit.Rule().Capacity() // that overflows only if it does not matter
	}
	return w
}

func (w *waiter) rule(i int) *rule.Limit { return w.request.Charges[i].Limit.Rule() }

func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// queue is one line.
type queue struct {
	shard   *shard
	id      identity
	classes []*class // the highest first; those that are empty are removed
	length  int
	remote  bool        // other processes may take from the same counts
	window  rule.Micros // the longest one

	lead     *waiter   // who asks next, or asks now
	due      time.Time // when
	asking   bool
	asked    question
	until    time.Time // over a network, when the first in line is admitted if nothing is returned; zero if that is unknown
	planned  bool      // nothing but the passing of time was awaited before the next question
	sent     time.Time // over a network, when it asked
	hurry    hurry
	failures int  // of the store, in a row
	again    bool // units were returned while the store was asked, so that a refusal may be out of date

	watched   bool
	addresses []identity // if it is watched

	known     []known // by charge, from the last answer; nil before the first one
	free      bool    // what the last answer left is free now
	contended time.Time
	pace      pace
	turns     turns
}

// class are the requests of one line whose limits are equally large.
type class struct {
	rank       int64
	head, tail *waiter
	length     int
	units      []int64 // the sum of the costs, by charge
	least      []int64 // the least cost that has been in it, by charge
}

func newQueue(s *shard, id identity, r *Request) *queue {
	q := &queue{shard: s, id: id, remote: isRemote(r.Store)}
	for i := range r.Charges {
		q.window = max(q.window, r.Charges[i].Limit.Rule().Window)
	}
	return q
}

// isRemote reports whether a store, or one below it, has round trips.
func isRemote(s store.Store) bool {
	for s != nil {
		if s.Traits().RoundTrips > 0 {
			return true
		}
		wrapper, wraps := s.(store.Wrapper)
		if !wraps {
			return false
		}
		s = wrapper.Unwrap()
	}
	return false
}

// enter puts a request at the end of its class.
func (q *queue) enter(w *waiter) {
	i, found := slices.BinarySearchFunc(q.classes, w.rank, func(c *class, rank int64) int {
		switch {
		case c.rank > rank:
			return -1
		case c.rank < rank:
			return 1
		}
		return 0
	})
	if !found {
		q.classes = slices.Insert(q.classes, i, &class{rank: w.rank, units: make([]int64, len(w.costs)), least: slices.Clone(w.costs)})
	}
	c := q.classes[i]
	w.class, w.before = c, c.tail
	if c.tail == nil {
		c.head = w
	} else {
		c.tail.behind = w
	}
	c.tail = w
	c.length++
	q.length++
	for i, cost := range w.costs {
		c.units[i] += cost
		c.least[i] = min(c.least[i], cost)
	}
	switch {
	case q.lead == nil && !q.asking:
		q.choose()
	case !found && i == 0 && !q.asking && q.next() == w: // it goes first, and may be admitted where the others are not
		q.lead, q.due, q.until, q.planned = w, time.Time{}, time.Time{}, false
	}
}

// leave removes a request, whose caller gives up or was served.
func (q *queue) leave(w *waiter) {
	c := w.class
	if c == nil {
		return
	}
	if w.before == nil {
		c.head = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		c.tail = w.before
	} else {
		w.behind.before = w.before
	}
	w.class, w.before, w.behind = nil, nil, nil
	c.length--
	q.length--
	for i, cost := range w.costs {
		c.units[i] -= cost
	}
	if c.length == 0 {
		q.classes = slices.DeleteFunc(q.classes, func(other *class) bool { return other == c })
	}
	if q.lead == w && !q.asking {
		if q.choose(); q.lead != nil && !w.isLike(q.lead) { // it may be admitted earlier
			q.due, q.until, q.planned = time.Time{}, time.Time{}, false
		}
	}
	q.removeEmpty()
}

// removeEmpty forgets the line if nobody is in it.
func (q *queue) removeEmpty() {
	if q.length == 0 && !q.asking && q.shard.lines[q.id] == q {
		delete(q.shard.lines, q.id)
		q.unwatch()
	}
}

// isLike reports whether a request is admitted exactly when the other one is.
func (w *waiter) isLike(other *waiter) bool {
	for i := range w.costs {
		if w.costs[i] != other.costs[i] || !sameLimit(w.request.Charges[i].Limit, other.request.Charges[i].Limit) {
			return false
		}
	}
	return true
}

func sameLimit(one, other *store.Limit) bool { return one == other || *one.Rule() == *other.Rule() }

// finish ends the wait of a request.
func (q *queue) finish(w *waiter, err error) {
	w.done, w.err = true, err
	q.leave(w)
	w.notify()
}

// choose makes one request the first in line, and wakes it. The moment to ask stays as it is.
func (q *queue) choose() {
	if q.lead = q.next(); q.lead != nil {
		q.lead.notify()
	}
}
