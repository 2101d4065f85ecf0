package failure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/batches"
	"github.com/slidegate/slidegate/internal/detach"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Why a request was not sent although the store is not known to be out.
var (
	errShed = &unavailable{cause: errors.New("failure: the store was late for this key three times in a row")}
	errFull = &unavailable{cause: errors.New("failure: too many callers wait for the store; see Options.MaxWaiting")}
)

// call is a call to a node in flight.
type call struct {
	node    *node
	answers int64 // of the node when the call began
	era     int64 // of the node when the call began
	start   int64 // when it began, in nanoseconds since the layer's base
	forgets int64 // of the refusals when it began
	count   *countdown
}

// begin begins a call to a node, and returns its context. It returns false if too many calls wait.
func (s *Store) begin(ctx context.Context, n *node, now time.Time) (limited context.Context, c call, ok bool) {
	if s.waiting.Add(1) > int64(s.opts.MaxWaiting) {
		s.waiting.Add(-1)
		s.shed.Add(1)
		return ctx, c, false
	}
	c = call{node: n, answers: n.answers.Load(), era: n.eras.Load(), start: int64(now.Sub(s.base)), forgets: s.refusals.forgets.Load()}
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(now) <= s.opts.Timeout {
		return ctx, c, true
	}
	limited, c.count = s.startCountdown(ctx, now, n, c.answers)
	return limited, c, true
}

// end ends a call that was answered, by the store itself unless cached.
func (s *Store) end(c *call, cached, admitted bool) {
	s.waiting.Add(-1)
	slow, late, _ := c.count.end()
	if late {
		s.late.Add(1)
	}
	if !cached {
		c.node.answer(slow)
		if admitted && !c.node.charged.Load() {
			c.node.charged.Store(true)
		}
	}
}

// fail ends a call that failed with err, and draws the conclusions. It reports whether the store was late, and whether the call
// found that the node is out, which a probe may have changed since.
func (s *Store) fail(ctx context.Context, c *call, err error) (late, out bool) {
	s.waiting.Add(-1)
	_, late, starved := c.count.end()
	n := c.node
	switch {
	case IsMistake(err): // the store may not have been asked
		return false, false
	case detach.HasEnded(ctx):
		if n.answers.Load() == c.answers {
			s.wake(n, false) // callers with short deadlines must not hide that the store is out
		}
		return false, false
	case errors.Is(err, store.ErrDown):
		if out = n.eras.Load() == c.era; out {
			s.open(n, err)
		}
	case starved:
		s.starved.Add(1)
	case n.answers.Load() != c.answers: // it answers others
	case !late: // the error may concern one key only
		s.wakeAndWait(ctx, c)
	case n.slow.Load() && n.isProbed(): // the probe decides; it began later, and is answered later than this call had time for
	default:
		out = true
		s.open(n, s.timeoutError(ctx, err))
	}
	if late {
		s.late.Add(1)
	}
	return late, out
}

// timeoutError returns the error of a call that the countdown ended. A store that derived its own context reports that it
// was canceled, which would read as if the caller had left.
func (s *Store) timeoutError(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("failure: the store did not answer within %v: %w", s.opts.Timeout, context.DeadlineExceeded)
	}
	return err
}

// unanswered returns the error of a request that the store did not answer. Out is whether its call found that the node is out.
func (s *Store) unanswered(ctx context.Context, n *node, err error, out bool) error {
	if IsMistake(err) || detach.HasEnded(ctx) {
		return err
	}
	s.failures.Add(1)
	why := &unavailable{cause: s.timeoutError(ctx, err)}
	if why.out = out || n.out.Load() != nil; why.out && !s.direct {
		why.node = n
	}
	return why
}

// IsMistake reports whether an error is about the request, and not about the store.
func IsMistake(err error) bool {
	return errors.Is(err, slidegate.ErrLimit) || errors.Is(err, slidegate.ErrCost) || errors.Is(err, slidegate.ErrConflict) ||
		errors.Is(err, store.ErrUnsupported)
}

// takeInner passes a single charge to the store. It returns an *unavailable if the store did not answer.
func (s *Store) takeInner(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	n := s.nodeOf(limit, "", key)
	if out := n.out.Load(); out != nil {
		return false, 0, 0, 0, 0, 0, s.notSent(ctx, out)
	}
	now := time.Now()
	var hash uint64
	watched := s.lateKeys.isActive(int64(now.Sub(s.base)))
	if watched {
		if hash = s.lateKeys.hashOf(address{limit.Prefix(), "", key}); s.lateKeys.isShed(hash, int64(now.Sub(s.base))) {
			s.shed.Add(1)
			return false, 0, 0, 0, 0, 0, s.notSent(ctx, errShed)
		}
	}
	limited, c, ok := s.begin(ctx, n, now)
	if !ok {
		return false, 0, 0, 0, 0, 0, s.notSent(ctx, errFull)
	}
	returned := false
	defer func() {
		if !returned { // the store panicked; the caller may recover
			s.waiting.Add(-1)
			c.count.end()
		}
	}()
	allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(limited, limit, key, cost)
	returned = true
	if err == nil {
		s.end(&c, flags&rule.Cached != 0, allowed)
		if watched {
			s.lateKeys.clear(hash, c.start)
		}
		if after > 0 && !endsEarly(limit, allowed, flags) {
			s.refusals.record("", limit, key, cost, allowed, remaining, after, moment{s.wall(c.start), c.forgets})
		}
		return allowed, flags, remaining, after, resetAfter, at, nil
	}
	late, out := s.fail(ctx, &c, err)
	if late {
		s.lateKeys.record(s.lateKeys.hashOf(address{limit.Prefix(), "", key}), s.sinceBase())
	}
	return false, 0, 0, 0, 0, 0, s.unanswered(ctx, n, err, out)
}

// notSent returns why, or the caller's error if it has left: no one waits for a decision.
func (s *Store) notSent(ctx context.Context, why *unavailable) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("failure: %w", err)
	}
	return why
}

// send passes the requests of a batch that are for the store to the store, and sets Err of all of them: to an *unavailable if
// the store did not answer.
func (s *Store) send(ctx context.Context, batch []store.Request, now time.Time) {
	var first *node
	var routes []*node // nil while all requests have the same, so that most batches need no memory
	for i := range batch {
		n := s.route(ctx, &batch[i], int64(now.Sub(s.base)))
		if i == 0 {
			first = n
		}
		if n != first && routes == nil {
			routes = slices.Repeat([]*node{first}, len(batch))
		}
		if routes != nil {
			routes[i] = n
		}
	}
	switch {
	case routes != nil:
		s.sendSome(ctx, batch, routes, now)
	case first != nil:
		s.sendTo(ctx, first, batch, now)
	}
}

// route returns the node that a request is sent to, or nil, with its Err set, if it is not sent.
func (s *Store) route(ctx context.Context, r *store.Request, now int64) *node {
	r.Err = nil
	if isFallbacks(r) {
		return nil
	}
	n := s.whole
	if len(r.Charges) > 0 {
		n = s.nodeOf(r.Charges[0].Limit, r.Group, r.Charges[0].Key)
	}
	if out := n.out.Load(); out != nil {
		r.Err = s.notSent(ctx, out)
		return nil
	}
	if s.lateKeys.isActive(now) && !followsUp(r.Op) && r.Op != rule.Reset &&
		s.lateKeys.isShed(s.lateKeys.hash(r.Group, r.Charges), now) {
		s.shed.Add(1)
		r.Err = s.notSent(ctx, errShed)
		return nil
	}
	return n
}

// sendSome sends the requests of a batch to different nodes, at the same time.
func (s *Store) sendSome(ctx context.Context, batch []store.Request, routes []*node, now time.Time) {
	var wait sync.WaitGroup
	defer wait.Wait()
	for i, n := range routes {
		if n == nil || slices.Index(routes, n) != i {
			continue
		}
		var some []store.Request
		var indexes []int
		for k := range routes {
			if routes[k] == n {
				some, indexes = append(some, batch[k]), append(indexes, k)
			}
		}
		wait.Go(func() {
			s.sendTo(ctx, n, some, now)
			for k := range some {
				batch[indexes[k]].Err = some[k].Err
			}
		})
	}
}

// sendTo sends requests to one node.
func (s *Store) sendTo(ctx context.Context, n *node, batch []store.Request, now time.Time) {
	if s.direct {
		if err := s.inner.Apply(ctx, batch); err != nil {
			batches.Spread(batch, err)
			s.explain(ctx, n, batch, false, true)
		}
		return
	}
	limited, c, ok := s.begin(ctx, n, now)
	if !ok {
		_ = batches.FailAll(batch, s.notSent(ctx, errFull))
		return
	}
	err := applySafely(limited, s.inner, batch)
	answered, admitted := s.answersIn(batch, c.start)
	if err == nil {
		s.end(&c, !answered, admitted)
		return
	}
	if batches.Spread(batch, err) {
		answered = false
	}
	if answered {
		n.answers.Add(1)
	}
	late, out := s.fail(ctx, &c, worst(batch))
	s.explain(ctx, n, batch, late, out)
}

// answersIn reports whether the store, and not a cache, answered any of the requests, and whether it admitted any.
func (s *Store) answersIn(batch []store.Request, start int64) (answered, admitted bool) {
	active := s.lateKeys.isActive(start)
	for i := range batch {
		r := &batch[i]
		if r.Err != nil || len(r.Answers) == 0 || r.Answers[0].Flags&rule.Cached != 0 {
			continue
		}
		answered = true
		admitted = admitted || r.Op <= rule.Charge && r.Answers[0].Granted > 0
		if active {
			s.lateKeys.clear(s.lateKeys.hash(r.Group, r.Charges), start)
		}
	}
	return answered, admitted
}

// worst returns the error of a batch that says most about the store.
func worst(batch []store.Request) (err error) {
	for i := range batch {
		switch e := batch[i].Err; {
		case e == nil:
		case errors.Is(e, store.ErrDown):
			return e
		case err == nil || IsMistake(err):
			err = e
		}
	}
	return err
}

// explain replaces the errors of requests by what they mean.
func (s *Store) explain(ctx context.Context, n *node, batch []store.Request, late, out bool) {
	for i := range batch {
		r := &batch[i]
		if r.Err == nil {
			continue
		}
		if late && !IsMistake(r.Err) {
			s.lateKeys.record(s.lateKeys.hash(r.Group, r.Charges), s.sinceBase())
		}
		r.Err = s.unanswered(ctx, n, r.Err, out)
	}
}

// panicError returns the error for a panic value, which is omitted because it may contain a key; runtime errors do not.
func panicError(value any) error {
	if known, ok := value.(runtime.Error); ok {
		return fmt.Errorf("failure: the store panicked: %w", known)
	}
	return fmt.Errorf("failure: the store panicked with a %T", value)
}
