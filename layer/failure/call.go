package failure

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// errBusy is the error of a request that was not sent because too many detached calls are in flight. It says nothing
// about the store, whose health shows in the calls that were made.
var errBusy = errors.New("failure: too many calls are in flight")

// applyInner passes a batch to the store, unless the breaker is open. Requests that the store did not answer get an
// *unavailable as their Err.
func (s *Store) applyInner(ctx context.Context, batch []store.Request) error {
	if len(batch) == 0 {
		return nil
	}
	if s.direct {
		if err := s.inner.Apply(ctx, batch); err != nil {
			s.classify(ctx, batch, err)
			return err
		}
		return nil
	}
	st := s.state.Load()
	if err := s.admit(ctx, st); err != nil {
		return fillErr(batch, err)
	}
	late, starved, err := s.call(ctx, batch)
	answered := true
	var why *unavailable
	if err != nil {
		answered, why = s.classify(ctx, batch, err)
	} else if st.failed != nil {
		answered = slices.ContainsFunc(batch, func(r store.Request) bool { return !isCached(r.Answers) })
	}
	s.recordOutcome(st, answered, late, starved, why)
	return err
}

// takeInner is applyInner for a single charge.
func (s *Store) takeInner(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	st := s.state.Load()
	if err = s.admit(ctx, st); err != nil {
		return false, 0, 0, 0, 0, 0, err
	}
	allowed, flags, remaining, after, resetAfter, at, late, starved, err := s.callOne(ctx, limit, key, cost)
	var why *unavailable
	if err != nil {
		err = s.failure(ctx, err)
		why, _ = err.(*unavailable)
	}
	s.recordOutcome(st, err == nil && !flags.Cached(), late, starved, why)
	return allowed, flags, remaining, after, resetAfter, at, err
}

// admit returns why the store must not be called, or nil if it may be.
func (s *Store) admit(ctx context.Context, st *state) error {
	if st.failed == nil {
		return nil
	}
	if err := ctx.Err(); err != nil { // no caller waits for the policy's decision, and as a probe it would prove nothing
		return fmt.Errorf("failure: %w", err)
	}
	if !s.mayCall(st) {
		return st.failed
	}
	return nil
}

// call calls the store with the deadline, and reports whether the deadline passed: because of the store (late), or
// because this process did not run (starved).
func (s *Store) call(ctx context.Context, batch []store.Request) (late, starved bool, err error) {
	limited, count := s.withDeadline(ctx)
	if s.opts.MaxDetached > 0 {
		err = s.detach(limited, batch)
	} else {
		err = s.inner.Apply(limited, batch)
	}
	late, starved = count.end()
	if err != nil && (late || starved) {
		for i := range batch {
			batch[i].Err = s.timeoutError(ctx, batch[i].Err)
		}
		err = s.timeoutError(ctx, err)
	}
	return late && ctx.Err() == nil, starved, err
}

// timeoutError returns the error of a call that the countdown ended. A store that derived its own context reports that it
// was canceled, which would read as if the caller had left.
func (s *Store) timeoutError(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("failure: the store did not answer within %v: %w", s.opts.Timeout, context.DeadlineExceeded)
	}
	return err
}

// callOne is call for a single charge.
func (s *Store) callOne(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, late, starved bool, err error,
) {
	if s.opts.MaxDetached > 0 {
		r := []store.Request{{
			Op: rule.Take, Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: make([]rule.Answer, 1),
		}}
		late, starved, err = s.call(ctx, r)
		a := &r[0].Answers[0]
		return a.Allowed, a.Flags, a.Remaining, a.After(), a.ResetAfter, a.At, late, starved, err
	}
	limited, count := s.withDeadline(ctx)
	allowed, flags, remaining, after, resetAfter, at, err = s.one.TakeSingle(limited, limit, key, cost)
	late, starved = count.end()
	if err != nil && (late || starved) {
		err = s.timeoutError(ctx, err)
	}
	return allowed, flags, remaining, after, resetAfter, at, late && ctx.Err() == nil, starved, err
}

// withDeadline returns the context for the store and its countdown. If the caller's own deadline is earlier, they are
// the caller's context and nil.
func (s *Store) withDeadline(ctx context.Context) (context.Context, *countdown) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= s.opts.Timeout {
		return ctx, nil
	}
	return startCountdown(ctx, s.opts.Timeout)
}

// classify separates the store's failures in a batch from the caller's errors, and reports whether the store answered any
// request.
func (s *Store) classify(ctx context.Context, batch []store.Request, first error) (answered bool, why *unavailable) {
	errs := 0
	for i := range batch {
		r := &batch[i]
		if r.Err == nil {
			answered = answered || !isCached(r.Answers)
			continue
		}
		errs++
		r.Err = s.failure(ctx, r.Err)
		if failed, ok := r.Err.(*unavailable); ok && why == nil {
			why = failed
		}
	}
	if errs == 0 { // the store reports a failure, but not of which request: no answer can be trusted
		err := s.failure(ctx, first)
		why, _ = err.(*unavailable)
		_ = fillErr(batch, err)
		return false, why
	}
	return answered, why
}

// isCached reports whether an answer came from a cache, and so says nothing about the store.
func isCached(answers []rule.Answer) bool {
	return len(answers) > 0 && answers[0].Flags.Cached()
}

// failure returns the error of a request: unchanged if the caller caused it, otherwise as a failure of the store.
func (s *Store) failure(ctx context.Context, err error) error {
	if hasEnded(ctx) || errors.Is(err, slidegate.ErrLimit) || errors.Is(err, slidegate.ErrCost) ||
		errors.Is(err, slidegate.ErrConflict) || errors.Is(err, store.ErrUnsupported) {
		return err
	}
	if err != errBusy {
		s.failures.Add(1)
	}
	return &unavailable{cause: err, notSent: err == errBusy}
}

// hasEnded reports whether the caller's own time has ended. A store may see that by its own clock before the context does.
func hasEnded(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= 0
}

// recordOutcome reports the outcome of a call to the breaker; why is the failure, if there was one. A call that failed while
// this process did not run says nothing about the store.
func (s *Store) recordOutcome(st *state, answered, late, starved bool, why *unavailable) {
	if late {
		s.late.Add(1)
		if why == nil {
			why = &unavailable{cause: fmt.Errorf("failure: the answer took longer than %v", s.opts.Timeout)}
		}
	}
	switch {
	case why != nil && why.cause == errBusy:
	case starved && !answered:
		s.starved.Add(1)
	case late || why != nil && !answered:
		s.recordFailure(st, why)
	case answered:
		s.recordAnswer(st)
	}
}

// detach applies a copy of the batch on another goroutine. If ctx ends first, the copy stays with that goroutine.
func (s *Store) detach(ctx context.Context, batch []store.Request) error {
	if s.detached.Add(1) > int64(s.opts.MaxDetached) {
		s.detached.Add(-1)
		return fillErr(batch, errBusy)
	}
	if err := ctx.Err(); err != nil { // no caller would wait for it
		s.detached.Add(-1)
		return fillErr(batch, fmt.Errorf("failure: %w", err))
	}
	copied, done := copyOf(batch), make(chan error, 1)
	go func() {
		err := s.applySafely(ctx, copied)
		s.detached.Add(-1)
		done <- err
	}()
	select {
	case err := <-done:
		for i := range batch {
			copy(batch[i].Answers, copied[i].Answers)
			batch[i].Err = copied[i].Err
		}
		return err
	case <-ctx.Done():
		return fillErr(batch, fmt.Errorf("failure: %w", ctx.Err()))
	}
}

// applySafely turns a panic, which no caller could recover on this goroutine, into an error. The panic value is omitted
// because it may contain a key; runtime errors do not.
func (s *Store) applySafely(ctx context.Context, batch []store.Request) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("failure: the store panicked with a %T", value)
			if known, ok := value.(runtime.Error); ok {
				err = fmt.Errorf("failure: the store panicked: %w", known)
			}
			_ = fillErr(batch, err)
		}
	}()
	return s.inner.Apply(ctx, batch)
}

func copyOf(batch []store.Request) []store.Request {
	copied := slices.Clone(batch)
	for i := range copied {
		copied[i].Charges = slices.Clone(copied[i].Charges)
		copied[i].Answers = make([]rule.Answer, len(copied[i].Answers))
	}
	return copied
}

func fillErr(batch []store.Request, err error) error {
	for i := range batch {
		batch[i].Err = err
	}
	return err
}
