package failure

import (
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The breaker is written by hand. Those of the libraries have no way to give a permit back without a verdict, so a probe
// whose caller hangs up would be missing for good; they count the result of a request from before the outage as that of a
// probe; and they take a lock at each request, which all processors then share.

// state is how the store has been since it last failed or recovered. A call is judged against the state that it began in:
// if that is no longer the current one, the call says nothing about the store as it is now.
type state struct {
	failed   *unavailable // why the store is not asked; nil while it is
	probeAt  atomic.Int64 // when it is asked again, in nanoseconds since the layer's base; if failed
	failures atomic.Int64 // calls in a row that failed; if not failed
}

// unavailable is the error of a request that the store did not answer: it is the policy's turn.
type unavailable struct {
	cause   error
	unasked bool // the store certainly did not hear of the request
}

func (e *unavailable) Error() string   { return "failure: store unavailable: " + e.cause.Error() }
func (e *unavailable) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// sinceBase is the layer's clock, monotonic.
func (s *Store) sinceBase() int64 { return int64(time.Since(s.base)) }

// moment is the same clock as a moment of a store.
func (s *Store) moment() rule.Micros {
	return s.wallBase + rule.Micros(s.sinceBase()/int64(time.Microsecond))
}

// mayAsk reports whether a request that finds store may go to the store: always in good times, else if a probe is due and
// nobody else was quicker. A probe needs no end: the next one is due an interval after it began, and it is over by then.
func (s *Store) mayAsk(st *state) bool {
	if st.failed == nil {
		return true
	}
	now, due := s.sinceBase(), st.probeAt.Load()
	if now < due || !st.probeAt.CompareAndSwap(due, now+int64(s.opts.ProbeEvery)) {
		return false
	}
	s.probes.Add(1)
	return true
}

// untilProbe is when a caller who is refused for the store's sake should come back: never at once.
func (s *Store) untilProbe() rule.Micros {
	st := s.state.Load()
	if st.failed == nil {
		return rule.Micros(s.opts.ProbeEvery.Microseconds())
	}
	const micro = int64(time.Microsecond)
	return rule.Micros(max(1, (st.probeAt.Load()-s.sinceBase()+micro-1)/micro))
}

// answered is what a call that was answered in time says about the store.
func (s *Store) answered(st *state) {
	switch {
	case st.failed != nil:
		if s.state.CompareAndSwap(st, new(state)) {
			s.recovered()
		}
	case st.failures.Load() != 0:
		st.failures.Store(0)
	}
}

// recovered tells those who wait for it that the store is asked again.
func (s *Store) recovered() {
	if s.opts.OnChange != nil {
		s.opts.OnChange(nil)
	}
	if s.optimism != nil {
		select {
		case s.optimism.wake <- struct{}{}:
		default:
		}
	}
}

// failed is what a call that failed says about the store. A probe that failed says nothing new.
func (s *Store) failed(st *state, why *unavailable) {
	if st.failed != nil || st.failures.Add(1) < int64(s.opts.Failures) {
		return
	}
	outage := &state{failed: &unavailable{cause: why.cause, unasked: true}}
	outage.probeAt.Store(s.sinceBase() + int64(s.opts.ProbeEvery))
	if s.state.CompareAndSwap(st, outage) {
		s.outages.Add(1)
		if s.opts.OnChange != nil {
			s.opts.OnChange(outage.failed)
		}
	}
}
