package failure

import (
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// The breaker is hand-written, because those in libraries have three faults. They cannot return a permit without a
// verdict, so a probe whose caller leaves would be lost for good. They count the result of a request from before the
// outage as the result of a probe. And they take a lock for each request, which all processors then share.

// state describes the store since it last failed or recovered. A call is judged against the state that it began in: if
// that is no longer the current one, the call says nothing about the store as it is now.
type state struct {
	failed   *unavailable // why the store is not called; nil while it is
	probeAt  atomic.Int64 // when it is called again, in nanoseconds since the layer's base; if failed
	failures atomic.Int64 // consecutive calls that failed; if not failed
}

// unavailable is the error of a request that the store did not answer, and that the policy has to decide.
type unavailable struct {
	cause   error
	notSent bool // the request was certainly not sent to the store
}

func (e *unavailable) Error() string   { return "failure: store unavailable: " + e.cause.Error() }
func (e *unavailable) Unwrap() []error { return []error{ErrUnavailable, e.cause} }

// sinceBase returns the time by the layer's monotonic clock.
func (s *Store) sinceBase() int64 { return int64(time.Since(s.base)) }

// now returns the time by the same clock as a store's time.
func (s *Store) now() rule.Micros {
	return s.wallBase + rule.Micros(s.sinceBase()/int64(time.Microsecond))
}

// mayCall reports whether a request that finds state st may go to the store: always while the store works, otherwise if
// a probe is due and no other request took it. A probe needs no end: the next one is due an interval after it began,
// and it is over by then.
func (s *Store) mayCall(st *state) bool {
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

// untilProbe returns when a request that was denied because of the outage should be retried: never immediately.
func (s *Store) untilProbe() rule.Micros {
	st := s.state.Load()
	if st.failed == nil {
		return rule.Micros(s.opts.ProbeEvery.Microseconds())
	}
	const micro = int64(time.Microsecond)
	return rule.Micros(max(1, (st.probeAt.Load()-s.sinceBase()+micro-1)/micro))
}

// recordAnswer records that a call was answered in time.
func (s *Store) recordAnswer(st *state) {
	switch {
	case st.failed != nil:
		if s.state.CompareAndSwap(st, new(state)) {
			s.reportRecovery()
		}
	case st.failures.Load() != 0:
		st.failures.Store(0)
	}
}

// reportRecovery reports that the store is called again.
func (s *Store) reportRecovery() {
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

// recordFailure records that a call failed. A failed probe changes nothing.
func (s *Store) recordFailure(st *state, why *unavailable) {
	if st.failed != nil || st.failures.Add(1) < int64(s.opts.Failures) {
		return
	}
	outage := &state{failed: &unavailable{cause: why.cause, notSent: true}}
	outage.probeAt.Store(s.sinceBase() + int64(s.opts.ProbeEvery))
	if s.state.CompareAndSwap(st, outage) {
		s.outages.Add(1)
		if s.opts.OnChange != nil {
			s.opts.OnChange(outage.failed)
		}
	}
}
