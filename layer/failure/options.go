package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Policy is what answers when the store does not. Open, Closed, Local and Optimistic make it; the zero value is not usable.
type Policy struct {
	flag     rule.Flags
	fallback store.Store
	k        int64 // of Optimistic
}

// Open admits. The answers carry rule.FallbackOpen; all that was asked for is granted, but no more than the limit admits at
// best: a cost above its capacity is refused, as the store would. What remains is unknown, and Remaining and ResetAfter are
// 0: nobody is told of units that may not be there.
func Open() Policy { return Policy{flag: rule.FallbackOpen} }

// Closed refuses. The answers carry rule.FallbackClosed, and RetryAfter is the time until the store is asked again,
// ProbeEvery if it is still asked each time, or Never for a cost above the limit's capacity. Remaining and ResetAfter are 0.
func Closed() Policy { return Policy{flag: rule.FallbackClosed} }

// Local asks another store with the same limits, one in this process such as a memstore. Its answers carry
// rule.FallbackLocal. It is asked without a deadline, and if it fails too, its error is returned together with the store's.
//
// Units go back to where they were taken. The At of an answer that did not come from the store is negative: minus the
// moment by the clock of the fallback. What is given back with a negative At goes to the fallback, even when the store is
// there again, and never to the store, which would take it from the units of others. What was taken from the store goes
// back to the store alone: during an outage that is an error, and the caller knows that it was not done. (With Open and
// Closed, nothing was charged where At is negative: giving it back does nothing, and is no error. A store that sees a negative At without
// this layer finds no units there either.) A process that settles what another one's fallback took asks its own
// fallback, which finds nothing unless the same key was charged there at the same time.
//
// Reservations and slots follow the same rule. What the fallback took is settled, renewed and released there, once, also when
// the store is there again; slots of the fallback do not count in the store. What the store took is settled, renewed and
// released by the store alone: during an outage that is an error. To settle again later is safe, and a slot that cannot be
// renewed ends with its time to live. (With Open, a slot was never taken: renewing it succeeds, releasing it does nothing.)
//
// A Refund, which names no moment, and a charge beyond the quota go to the fallback during an outage, as takes do, and to
// the store at other times. A reset is done in both: the answer is the store's, and so is the error if only the fallback
// was reset.
func Local(fallback store.Store) Policy {
	return Policy{flag: rule.FallbackLocal, fallback: fallback}
}

// Optimistic admits up to k units of a key that the store has not acknowledged, in each process, and charges them at the store when
// it answers again. The answers carry rule.FallbackOptimistic. It is for stores that are slow or away for a short time: what is
// admitted has a bound, and the store learns of it.
//
// In any window, all processes together admit at most the quota and k for each process. That holds for limits that keep their
// quota in any window, which are sliding logs and overlap whole; other limits admit at most k for each process beyond what they
// admit otherwise. It holds whatever is lost on the way:
//
//   - A unit counts here from its admission until the store has acknowledged its charge, or it is so old that it counts nowhere: a
//     window and a part.
//   - A charge that was sent is not sent again, because it may have been carried out. Its units count here until they are that
//     old.
//   - After an answer of the store that left no room, nothing is admitted until there is room by that answer. (For keys that had
//     no room when they took from the store this is best effort: the layer remembers some thousands. The bound does not depend on
//     that.)
//   - A take that the store did not answer in time may have been charged there. It is charged again if it was admitted here,
//     which can only refuse more.
//
// Remaining is how many more units this process would admit, and RetryAfter the time until the store is asked again, or until there is
// room by its last answer, or Never for a cost above the limit's capacity. No more than the capacity is admitted if k is larger. A
// request with several charges is admitted if all of them have room, and else changes none.
//
// A peek changes nothing. A charge beyond the quota is entered whatever there is room for, and counts. A Refund takes back what the store
// has not heard of yet, the oldest first. What was admitted here and is given back or settled is taken back if the store has not
// heard of it; if it has, it stays charged, and what was used beyond the cost is charged too, once. Slots of in-flight limits are not
// charged at the store: they count here until they are released or their time to live is over, k at a time. What the store
// took is given back, settled and renewed by the store alone: during an outage that is an error. A reset needs the store too, and
// then also forgets what is counted here. Requests that are refused here are not counted, also if the limit has CountDenied.
//
// What is owed is charged by a goroutine that lives as long as something is. Close charges it at the end of the process; what a
// process owed that was killed is lost, and stays within its k.
func Optimistic(k int64) Policy { return Policy{flag: rule.FallbackOptimistic, k: k} }

// String returns open, closed, local or optimistic.
func (p Policy) String() string {
	switch p.flag {
	case rule.FallbackOpen:
		return "open"
	case rule.FallbackClosed:
		return "closed"
	case rule.FallbackLocal:
		return "local"
	case rule.FallbackOptimistic:
		return "optimistic"
	default:
		return "none"
	}
}

// Options are the choices of a Store besides its policy. The zero value is useful.
type Options struct {
	// Timeout is how long a request may take. 0 means 100ms; at most 24 hours. A time in which this process does not run, because
	// it is stopped or starved of CPU, does not count: the store may have answered in it, and nobody was there to see. If the
	// caller's context ends earlier, that is the caller's error: the policy does not answer, and the store is not held to have
	// failed. So Timeout should be shorter than the callers' own deadlines.
	Timeout time.Duration
	// Failures is how many calls in a row must fail until the store is not asked any more. 0 means 1: then a dead store
	// costs nobody anything after the first, and a single answer that was slow means one ProbeEvery of fallback. A call
	// fails when it takes longer than Timeout, even if an answer comes then, which is used; or when the store answered none
	// of its requests.
	Failures int
	// ProbeEvery is how long the store is left alone after it failed, and between one probe and the next. A probe is a
	// request like any other: its caller gets the store's answer if it comes in time. 0 means 1s, or Timeout if that is
	// longer. It must not be shorter than Timeout, so that one probe is over before the next begins; at most 24 hours.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits, for Local only: each limit's quota and burst are divided by it in
	// the fallback, rounded up, at least 1, so that together they admit about as much as the store would. (A bucket that
	// would then take more than five years to fill, which no limit may, gets one unit of burst less.) A cost that is
	// too large for a share, but not for the limit, is refused until the next probe. 0 means 1: every process admits the
	// whole quota.
	Instances int
	// MaxDetached is for stores that may not return when their context ends. If it is not 0, every call to the store runs
	// on a goroutine of its own, with its own copy of the request, and a caller whose time is over does not wait for it. At
	// most so many are on their way at a time, abandoned ones included until the store returns from them; beyond that, the
	// policy answers at once. Choose it well above what is on its way in good times. What a detached call panics with is a
	// failure of the store. 0 means that calls run on the caller's goroutine, which is faster and trusts the store.
	MaxDetached int
	// MaxPending is how much may be remembered, for Optimistic only: keys, and requests of theirs, though requests in short
	// succession count as one. Beyond it requests are refused, as by Closed. 0 means 65,536, which takes some 10 MB.
	MaxPending int
	// OnFallback is called for each request that the policy answered, on the caller's goroutine, before the answer is
	// returned. The error says why the store did not answer; it contains no key. It must be quick and safe for concurrent
	// use. nil means that nobody is told.
	OnFallback func(ctx context.Context, op rule.Op, err error)
	// OnChange is called when the store is no longer asked, with the error why, and with nil when it has answered a probe and is
	// asked again. It is called once for each change, on the goroutine of a caller, before that one is answered. Calls may overlap
	// where changes follow each other closely; Stats.Down has the present state. It must be quick and safe for concurrent use. nil
	// means that nobody is told.
	OnChange func(err error)
}

// longest is the most that a time in Options may be; far beyond what is useful, and sums of it do not overflow.
const longest = 24 * time.Hour

// ErrUnavailable is wrapped by every error that comes from a store that failed, along with the store's own error.
var ErrUnavailable = errors.New("store unavailable")

func (o *Options) fill(p Policy) error {
	if o.Timeout == 0 {
		o.Timeout = 100 * time.Millisecond
	}
	if o.Failures == 0 {
		o.Failures = 1
	}
	if o.ProbeEvery == 0 {
		o.ProbeEvery = max(time.Second, o.Timeout)
	}
	if o.MaxPending == 0 && p.flag == rule.FallbackOptimistic {
		o.MaxPending = defaultPending
	}
	switch {
	case o.Timeout < 0 || o.Timeout > longest:
		return fmt.Errorf("failure: Timeout: must be up to %v, or 0 for the default, not %v", longest, o.Timeout)
	case o.Failures < 0:
		return fmt.Errorf("failure: Failures: must be 1 or more, or 0 for the default, not %d", o.Failures)
	case o.ProbeEvery < o.Timeout || o.ProbeEvery > longest:
		return fmt.Errorf("failure: ProbeEvery: must be from Timeout, %v, up to %v, or 0 for the default, not %v",
			o.Timeout, longest, o.ProbeEvery)
	case o.Instances < 0:
		return fmt.Errorf("failure: Instances: must be 1 or more, or 0 for 1, not %d", o.Instances)
	case o.Instances > 1 && p.fallback == nil:
		return fmt.Errorf("failure: Instances: %d applies to Local only, not to the policy %v; leave it out", o.Instances, p)
	case o.MaxPending < 0:
		return fmt.Errorf("failure: MaxPending: must be 1 or more, or 0 for the default, not %d", o.MaxPending)
	case o.MaxPending > 0 && p.flag != rule.FallbackOptimistic:
		return fmt.Errorf("failure: MaxPending: %d applies to Optimistic only, not to the policy %v; leave it out", o.MaxPending, p)
	case o.MaxDetached < 0:
		return fmt.Errorf("failure: MaxDetached: must be 1 or more, or 0 for calls that are not detached, not %d", o.MaxDetached)
	}
	return nil
}

// Stats counts what happened since the layer was made.
type Stats struct {
	Fallbacks int64 // requests that the policy answered
	Undone    int64 // requests that returned an error because the store failed, and nothing could answer for it
	Failures  int64 // requests that the store was asked and failed to answer
	Late      int64 // calls that took longer than Timeout
	Starved   int64 // calls that failed while this process did not run, which are not held against the store
	Outages   int64 // how often the store was no longer asked
	Probes    int64 // calls that were made to see whether it is back
	Detached  int64 // detached calls that are on their way now, abandoned ones included
	Owed      int64 // units that Optimistic admitted and has yet to charge
	Unknown   int64 // units that it sent, and still counts because nobody knows whether they were charged
	Charged   int64 // units that it charged
	Down      bool  // the store is not asked now, but for probes
}
