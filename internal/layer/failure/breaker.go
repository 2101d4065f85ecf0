package failure

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The breaker is hand-written, because those in libraries count failures, and a failure says little about a store: one row
// may be locked, one client may be busy. And they take a lock for each request, which all processors then share.

// node is a part of the store that fails as a whole, with its breaker: one node of a store that implements store.Nodes, or
// the whole of any other store.
type node struct {
	number  int                         // of store.Nodes
	out     atomic.Pointer[unavailable] // why it is not called; nil while it is
	answers atomic.Int64                // calls that it has answered
	slow    atomic.Bool                 // the last one took more than half of the time that it had
	eras    atomic.Int64                // how often it came back: a call of an earlier era cannot report that it is down
	charged atomic.Bool                 // it has admitted something since Watch looked last
	next    atomic.Int64                // when it may be probed again, in nanoseconds since the layer's base
	failed  atomic.Int64                // when it may be probed again before that because a call failed

	mu    sync.Mutex    // guards the following
	probe chan struct{} // closed when the probe in flight has ended; nil if there is none
	timer *time.Timer   // of the next probe; nil if none is planned
	key   string        // that probes are charged to, if there are several nodes
	keys  int           // how many keys were tried
}

// answer records that the node has answered a call.
func (n *node) answer(slow bool) {
	n.answers.Add(1)
	if n.slow.Load() != slow {
		n.slow.Store(slow)
	}
}

// isProbed reports whether a probe is in flight.
func (n *node) isProbed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.probe != nil
}

// maxNodes is the maximum of nodes; see store.Nodes.
const maxNodes = 1024

// unavailable is the error of a request that the store did not answer, and that a failure mode has to decide.
type unavailable struct {
	cause error
	out   bool  // the store is out, rather than late
	node  *node // that is out
}

func (e *unavailable) Error() string   { return "failure: store unavailable: " + e.cause.Error() }
func (e *unavailable) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// sinceBase returns the time by the layer's monotonic clock.
func (s *Store) sinceBase() int64 { return int64(time.Since(s.base)) }

// now returns the time by the same clock as a store's time.
func (s *Store) now() rule.Micros { return s.wall(s.sinceBase()) }

// wall returns a time since the layer's base as a store's time.
func (s *Store) wall(since int64) rule.Micros {
	return s.wallBase + rule.Micros(since/int64(time.Microsecond))
}

// nodeOf returns the node of an address.
func (s *Store) nodeOf(limit *store.Limit, group, key string) *node {
	if s.nodes == nil {
		return s.whole
	}
	number := s.nodes.Node(limit, group, key)
	if number < 0 || number >= maxNodes {
		return s.whole
	}
	cell := &s.others[number]
	if known := cell.Load(); known != nil {
		return known
	}
	cell.CompareAndSwap(nil, &node{number: number})
	return cell.Load()
}

// each calls do for every node that is known.
func (s *Store) each(do func(*node)) {
	do(s.whole)
	for i := range s.others {
		if n := s.others[i].Load(); n != nil {
			do(n)
		}
	}
}

// open records that a node is out. It is probed from now on, and not called.
func (s *Store) open(n *node, cause error) {
	s.changes.Lock()
	defer s.changes.Unlock()
	if n.out.Load() != nil {
		return
	}
	why := &unavailable{cause: cause, out: true, node: n}
	n.out.Store(why)
	s.health.Store(why)
	s.outages.Add(1)
	if s.opts.OnChange != nil {
		s.opts.OnChange(why)
	}
	s.wake(n, false)
}

// close records that a node is back.
func (s *Store) close(n *node) {
	s.changes.Lock()
	defer s.changes.Unlock()
	if n.out.Load() == nil {
		return
	}
	n.eras.Add(1)
	n.out.Store(nil)
	s.lateKeys.forget()
	var rest *unavailable
	s.each(func(other *node) {
		if why := other.out.Load(); why != nil {
			rest = why
		}
	})
	s.health.Store(rest)
	if rest == nil && s.opts.OnChange != nil {
		s.opts.OnChange(nil)
	}
}

// untilProbe returns when a request that was refused without the store should be retried: never immediately.
func (s *Store) untilProbe(why *unavailable) rule.Micros {
	if why.node == nil || s.life.Err() != nil { // not of a node, or there is no next one
		return rule.Micros(s.opts.ProbeEvery.Microseconds())
	}
	const micro = int64(time.Microsecond)
	return rule.Micros(max(1, (why.node.next.Load()-s.sinceBase()+micro-1)/micro))
}
