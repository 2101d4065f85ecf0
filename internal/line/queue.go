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

// place returns where the line of a request is. Requests with other limits at the same addresses, as after a reload, have a line of their own:
// in one line, those with smaller limits would keep back the others.
func place(r *Request) (*shard, identity) {
	var buffer [256]byte
	text := appendText(buffer[:0], r.Group)
	for i := range r.Charges {
		limit := r.Charges[i].Limit
		text = appendRule(appendText(append(text, limit.Prefix()...), r.Charges[i].Key), limit.Rule())
	}
	return shardOf(r), identity{r.Scope, string(text)}
}

// appendRule appends what of a limit is not part of its address.
func appendRule(to []byte, l *rule.Limit) []byte {
	flags := byte(l.Overlap) << 2
	if l.CountRefused {
		flags |= 1
	}
	if l.Lease {
		flags |= 2
	}
	to = binary.AppendUvarint(binary.AppendUvarint(append(to, flags), uint64(l.Quota)), uint64(l.Burst))
	return binary.AppendUvarint(to, uint64(l.Hold))
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
	room     [2]int64  // for costs
	deadline time.Time // zero if there is none
	since    time.Time

	wake   chan struct{}
	before *waiter
	behind *waiter
	stands bool // it has not left

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
	shard      *shard
	id         identity
	head, tail *waiter
	length     int
	units      []int64     // the sum of the costs, by charge
	remote     bool        // other processes may take from the same counts
	window     rule.Micros // the longest one

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
}

func newQueue(s *shard, id identity, r *Request) *queue {
	q := &queue{shard: s, id: id, units: make([]int64, len(r.Charges)), remote: isRemote(r.Store)}
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

// enter puts a request at the end of the line.
func (q *queue) enter(w *waiter) {
	w.stands, w.before = true, q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.behind = w
	}
	q.tail = w
	q.length++
	for i, cost := range w.costs {
		q.units[i] += cost
	}
	if q.lead == nil && !q.asking {
		q.choose()
	}
}

// leave removes a request, whose caller gives up or was served.
func (q *queue) leave(w *waiter) {
	if !w.stands {
		return
	}
	if w.before == nil {
		q.head = w.behind
	} else {
		w.before.behind = w.behind
	}
	if w.behind == nil {
		q.tail = w.before
	} else {
		w.behind.before = w.before
	}
	w.stands, w.before, w.behind = false, nil, nil
	q.length--
	for i, cost := range w.costs {
		q.units[i] -= cost
	}
	if q.lead == w && !q.asking {
		if q.choose(); q.lead != nil && !slices.Equal(w.costs, q.lead.costs) { // it may be admitted earlier
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

// finish ends the wait of a request.
func (q *queue) finish(w *waiter, err error) {
	w.done, w.err = true, err
	q.leave(w)
	w.notify()
}

// choose makes the first in line ask next, and wakes it. The moment to ask stays as it is.
func (q *queue) choose() {
	if q.lead = q.head; q.lead != nil {
		q.lead.notify()
	}
}
