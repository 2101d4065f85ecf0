// Package line lets the requests of one process that wait for the same key stand in line: first come, first served, with one question to the
// store for all of them. Limiters and the policy engine wait with it.
//
// The first in line asks, when it may be admitted, and takes what is free also for those behind it. The others sleep until they have been
// served, are first, or leave. So a line needs no goroutine of its own, and nobody asks in vain. The store decides, as always: the line only
// determines who asks when, so no promise about admissions depends on it.
//
// Each process has lines of its own, and processes compete: one that was served lets others ask first for a moment. One line in the store
// would take a write for each place, and a process that dies would leave its place.
package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// MaxLength is how many requests may wait in one line.
const MaxLength = 1 << 16

// Errors of Wait.
var (
	// ErrFull means that MaxLength requests wait already.
	ErrFull = errors.New("too many requests wait in line")
	// ErrNever means that the limits never admit the cost.
	ErrNever = errors.New("the limits never admit the cost")
)

// Late is the error of a request that would be served after its deadline.
type Late struct {
	After time.Duration // when it would be served, from now
	Place int           // how many would have been served before it, and 1
}

func (l *Late) Error() string {
	return fmt.Sprintf("number %d in line would be served in %v, after the deadline", l.Place, l.After)
}

// Request is a request that waits. The caller must not change it until Wait has returned.
type Request struct {
	Store store.Store
	// Scope identifies the counts behind Store: the requests of one scope with the same addresses stand in one line.
	Scope   any
	Group   string
	Charges []store.Charge
	// Take asks for this request alone, and returns an answer for each of the charges. It is called by the goroutine of Wait, with its context.
	// nil means that the charges are taken, perhaps together with those of others.
	Take func(context.Context) ([]rule.Answer, error)
	// Peeks means that refusals count, so that the line peeks before it takes.
	Peeks bool
	// Stood is set by Wait if the request stood in line: it was not served by its first answer, or others were before it.
	Stood bool
}

// Wait waits until the request is admitted, and takes it. It returns ErrNever, ErrFull, a *Late, the error of ctx, or that of the store.
// Whoever cannot be served before the deadline of ctx is told as soon as that is known, which in one process is at once. With several
// processes the time is an estimate.
func Wait(ctx context.Context, r *Request) error {
	for i := range r.Charges {
		if charge := &r.Charges[i]; charge.Cost > charge.Limit.Rule().Capacity() {
			return ErrNever
		}
	}
	if served, err := takeNow(ctx, r); served || err != nil {
		return err
	}
	w := newWaiter(ctx, r)
	s, id := place(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.lines[id]
	if q == nil {
		q = newQueue(s, id, r)
		s.lines[id] = q
	}
	if q.length >= MaxLength {
		return ErrFull
	}
	q.enter(w)
	if err := q.judge(w); err != nil {
		q.leave(w)
		return err
	}
	return q.stand(ctx, w)
}

// questions are for takeNow.
var questions = sync.Pool{New: func() any { return new(question) }}

// takeNow takes a request without a line, which costs several times as much as a decision in this process, if there is none to stand in.
func takeNow(ctx context.Context, r *Request) (served bool, err error) {
	if r.Take != nil || r.Peeks || !shardOf(r).isIdle() || isRemote(r.Store) || ctx.Err() != nil {
		return false, ctx.Err()
	}
	a := questions.Get().(*question)
	a.charges = append(a.charges[:0], r.Charges...)
	a.answers = slices.Grow(a.answers[:0], len(a.charges))[:len(a.charges)]
	a.request[0] = store.Request{Op: rule.Take, Group: r.Group, Charges: a.charges, Answers: a.answers}
	if err = r.Store.Apply(ctx, a.request[:]); err == nil {
		served = allowed(a.answers)
	}
	clear(a.charges)
	a.request[0] = store.Request{}
	questions.Put(a)
	return served, err
}

// stand waits for a request's turn. The shard is locked, except while the request sleeps or asks.
func (q *queue) stand(ctx context.Context, w *waiter) error {
	for {
		var alarm <-chan time.Time
		var timer *time.Timer
		switch {
		case w.done:
			if p, ok := w.err.(*panicked); ok {
				panic(p.value)
			}
			return w.err
		case ctx.Err() != nil: // a caller that has gone must not take anything
			q.leave(w)
			return ctx.Err()
		case q.lead == w && !q.asking:
			left := time.Until(q.due)
			if left <= 0 {
				q.ask(ctx, w)
				continue
			}
			timer = time.NewTimer(left)
			alarm = timer.C
		case w.unsure:
			if err := q.estimate(ctx, w); err != nil && !w.done {
				q.leave(w)
				return err
			}
			continue
		}
		if q.lead != w || !q.asking {
			w.request.Stood = true
		}
		q.shard.mu.Unlock()
		select {
		case <-w.wake:
		case <-alarm:
		case <-ctx.Done():
		}
		if timer != nil {
			timer.Stop()
		}
		q.shard.mu.Lock()
	}
}
