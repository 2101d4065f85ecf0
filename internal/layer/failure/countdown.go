package failure

import (
	"context"
	"sync"
	"time"
)

// fullSteps is how many steps a deadline is counted in. Each step is a timer that starts when the previous one has
// fired, so time in which this process does not run (it is stopped, or starved of CPU) takes one step, however long it
// is.
const fullSteps = 4

// countdown ends the context of one call when the store has had Timeout to answer, counting only time in which this
// process ran and could have seen an answer. A step that is late by more than its own length does not count, but there
// are at most twice fullSteps: a call ends even if there is never enough CPU.
type countdown struct {
	mu      sync.Mutex
	tick    func() // created once, for the timer
	timer   *time.Timer
	cancel  context.CancelCauseFunc
	timeout time.Duration
	due     time.Time // when the current step is over
	step    time.Duration
	steps   int // steps that have ended
	late    int // how many of these were late
	over    bool

	store   *Store
	node    *node // that is called; nil for a probe
	answers int64 // of the node when the call began
}

// newCountdown is for the pool of countdowns. They are pooled without their timers: a timer belongs to the synctest bubble that
// created it.
func (s *Store) newCountdown() any {
	c := &countdown{store: s}
	c.tick = func() { c.endStep(time.Now()) }
	return c
}

// callContext is the context of a call to the store. It is done when the countdown ends it, or when the caller's context is
// done.
type callContext struct {
	context.Context
	hard time.Time
}

// Deadline returns a time later than the countdown allows. It is for stores that only check deadlines and ignore Done.
func (l *callContext) Deadline() (time.Time, bool) { return l.hard, true }

// Err returns context.DeadlineExceeded if the countdown ended the context.
func (l *callContext) Err() error {
	err := l.Context.Err()
	if err == context.Canceled && context.Cause(l.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}

// startCountdown returns a context for a call to a node, which ends after Timeout, and its countdown.
func (s *Store) startCountdown(ctx context.Context, now time.Time, n *node, answers int64) (*callContext, *countdown) {
	timeout := s.opts.Timeout
	inner, cancel := context.WithCancelCause(ctx)
	l := &callContext{Context: inner, hard: now.Add(2 * timeout)}
	if own, ok := ctx.Deadline(); ok && own.Before(l.hard) {
		l.hard = own
	}
	c := s.countdowns.Get().(*countdown)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel, c.timeout, c.steps, c.late, c.over = cancel, timeout, 0, 0, false
	c.node, c.answers = n, answers
	c.begin(now)
	c.timer = time.AfterFunc(c.step, c.tick)
	return l, c
}

// begin begins a step. The steps that count add up to the timeout.
func (c *countdown) begin(now time.Time) {
	counted := time.Duration(c.steps - c.late)
	c.step = c.timeout*(counted+1)/fullSteps - c.timeout*counted/fullSteps
	c.due = now.Add(c.step)
}

// endStep ends a step.
func (c *countdown) endStep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil {
		return
	}
	c.steps++
	if now.Sub(c.due) > c.step {
		c.late++
	}
	if c.steps-c.late == fullSteps || c.steps == 2*fullSteps {
		c.over = true
		c.cancel(context.DeadlineExceeded)
		return
	}
	if c.steps-c.late == fullSteps/2 && c.node != nil && c.node.answers.Load() == c.answers {
		c.store.wake(c.node, true)
	}
	c.begin(now)
	c.timer.Reset(c.step)
}

// end ends the countdown with the call. It reports whether more than half of the time had passed (slow), whether the store had
// its full time and did not answer (late), or whether the call says nothing about the store because this process did not run
// (starved). A nil countdown is none of these.
func (c *countdown) end() (slow, late, starved bool) {
	if c == nil {
		return false, false, false
	}
	stopped := c.timer.Stop()
	c.mu.Lock()
	slow = c.steps-c.late >= fullSteps/2
	late = c.over && c.steps-c.late == fullSteps
	starved = c.late > 0 && !late
	cancel := c.cancel
	c.cancel, c.timer, c.node = nil, nil, nil
	c.mu.Unlock()
	cancel(context.Canceled)
	if stopped { // otherwise a tick may still come
		c.store.countdowns.Put(c)
	}
	return slow, late, starved
}
