package failure

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/layering"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A probe is a charge of one unit, because a store that is read-only or full still answers everything else. It is sent to
// the store below coalescing and caching, where it waits for nothing, to a key of this process that expires. Probes are
// the only calls to a node that is out, and there is at most one per interval. While a node answers, a call that has waited
// for half of its time, or has failed, without any sign of life is a reason for one more: it tells one key from a dead store.
// Timers send probes, so no goroutine waits.

// probeLimit is the limit that probes are charged to.
var probeLimit = store.Bind("slidegate/health", "", "slidegate/health", rule.Limit{
	Algorithm: rule.FixedWindow, Quota: 1, Window: 10_000_000,
})

// probeKeys is how many keys are tried to find one of a node.
const probeKeys = 1 << 14

// belowLayers returns the store below the layers of this module.
func belowLayers(s store.Store) store.Store {
	for {
		layer, ok := s.(interface {
			layering.Layered
			store.Wrapper
		})
		if !ok {
			return s
		}
		s = layer.Unwrap()
	}
}

// wake plans a probe of a node for as soon as one may be sent: if the node is suspected to be out, before its interval has
// passed. It reports whether one is in flight.
func (s *Store) wake(n *node, suspected bool) (inFlight bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.probe != nil || s.life.Err() != nil {
		return n.probe != nil
	}
	if s.due(n, suspected) {
		go s.probe(n)
		return true
	}
	s.plan(n)
	return false
}

// wakeAndWait wakes the prober for a call that failed: connections may have broken because the store is gone, so once per interval
// the probe does not wait for its time. If a probe is in flight then, it waits for its end, but not longer than the call may take.
func (s *Store) wakeAndWait(ctx context.Context, c *call) {
	now := s.sinceBase()
	first := now >= c.node.failed.Load()
	if !s.wake(c.node, first) {
		return
	}
	if first {
		c.node.failed.Store(now + int64(s.opts.ProbeEvery))
	}
	c.node.mu.Lock()
	ended := c.node.probe
	c.node.mu.Unlock()
	if ended == nil {
		return
	}
	rest := time.NewTimer(s.opts.Timeout - time.Duration(s.sinceBase()-c.start))
	defer rest.Stop()
	select {
	case <-ended:
	case <-rest.C:
	case <-ctx.Done():
	}
}

// due reports whether a node may be probed now. If so, the caller must do it. The caller holds the node's lock.
func (s *Store) due(n *node, suspected bool) bool {
	now, next := s.sinceBase(), n.next.Load()
	if suspected && n.out.Load() == nil {
		next += int64(s.opts.Timeout/2 - s.opts.ProbeEvery)
	}
	if now < next {
		return false
	}
	n.next.Store(now + int64(s.opts.ProbeEvery))
	n.probe = make(chan struct{})
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
	return true
}

// plan sets the timer of a node's next probe. The caller holds the node's lock.
func (s *Store) plan(n *node) {
	if n.timer != nil {
		return
	}
	n.timer = time.AfterFunc(time.Duration(n.next.Load()-s.sinceBase()), func() {
		n.mu.Lock()
		n.timer = nil
		n.mu.Unlock()
		s.wake(n, false)
	})
}

// probe probes a node, and plans the next probe if the node is out.
func (s *Store) probe(n *node) {
	s.probes.Add(1)
	if err := s.ask(n); err == nil {
		s.close(n)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.probe)
	n.probe = nil
	if n.out.Load() != nil && s.life.Err() == nil {
		s.plan(n)
	}
}

// ask sends a probe. It returns an error if the node did not answer, which opens the breaker unless the node has answered
// another call in that time.
func (s *Store) ask(n *node) error {
	key, found := s.probeKey(n)
	if !found { // the node has no keys any more
		return nil
	}
	batch := []store.Request{{
		Op: rule.Charge, Charges: []store.Charge{{Limit: probeLimit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1),
	}}
	seen := n.answers.Load()
	ctx, count := s.startCountdown(s.life, time.Now(), nil, 0)
	err := applySafely(ctx, s.bottom, batch)
	slow, late, starved := count.end()
	switch {
	case err == nil || IsMistake(err):
		n.answer(slow)
		return nil
	case s.life.Err() != nil:
	case starved && !errors.Is(err, store.ErrDown):
		s.starved.Add(1)
	case errors.Is(err, store.ErrDown) || n.answers.Load() == seen:
		if late {
			err = s.timeoutError(s.life, err)
		}
		s.open(n, err)
	}
	return err
}

// probeKey returns the key that a node's probes are charged to, and false if none was found. While the node is out it is a
// new one each time: a store that is full may still accept charges to a key that it has.
func (s *Store) probeKey(n *node) (key string, found bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.out.Load() != nil {
		n.key = ""
	}
	for range probeKeys {
		if n.key != "" && (s.nodes == nil || n == s.whole || s.nodes.Node(probeLimit, "", n.key) == n.number) {
			return n.key, true
		}
		n.keys++
		n.key = s.healthKey + "-" + strconv.Itoa(n.keys)
	}
	return "", false
}

// watch probes nodes that are not known to accept charges, once per interval.
func (s *Store) watch() {
	if s.life.Err() != nil {
		return
	}
	if s.nodes != nil {
		for i := range maxNodes { // find nodes that no request was sent to yet
			s.nodeOf(probeLimit, "", s.healthKey+"-"+strconv.Itoa(i))
		}
	}
	s.each(func(n *node) {
		if !n.charged.Swap(false) && (s.nodes == nil || n != s.whole) {
			s.wake(n, false)
		}
	})
	s.watcher.Reset(s.opts.ProbeEvery)
}

// Close stops probing. From then on a store that is out stays out for this layer.
func (s *Store) Close() {
	s.endLife()
	s.each(func(n *node) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.timer != nil {
			n.timer.Stop()
			n.timer = nil
		}
	})
	if s.watcher != nil {
		s.watcher.Stop()
	}
}

// applySafely turns a panic on a goroutine without a caller, who could recover it, into an error. The panic value is omitted
// because it may contain a key; runtime errors do not.
func applySafely(ctx context.Context, to store.Store, batch []store.Request) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicError(value)
			_ = batches.FailAll(batch, err)
		}
	}()
	return to.Apply(ctx, batch)
}
