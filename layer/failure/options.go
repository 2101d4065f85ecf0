package failure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Policy decides requests that the store does not answer. Open, Closed, Local and Optimistic return one; the zero value
// is not usable.
type Policy struct {
	flag     rule.Flags
	fallback store.Store
	k        int64 // of Optimistic
}

// Open admits. Its answers carry rule.FallbackOpen and grant the full cost, but no more than the limit can ever admit:
// a cost above its capacity is denied, as the store would. What remains is unknown, so Remaining and ResetAfter are 0,
// and no client is promised units that may not exist.
func Open() Policy { return Policy{flag: rule.FallbackOpen} }

// Closed denies. Its answers carry rule.FallbackClosed. RetryAfter is the time until the next probe, ProbeEvery if the
// store is still called each time, or Never for a cost above the limit's capacity. Remaining and ResetAfter are 0.
func Closed() Policy { return Policy{flag: rule.FallbackClosed} }

// Local decides by another store with the same limits, in this process, such as a memstore. Its answers carry
// rule.FallbackLocal. The fallback is called without a deadline, and if it fails too, its error is returned together
// with the store's.
//
// Units are returned to the store they were taken from. The At of an answer that did not come from the store is
// negative: minus the time of the fallback's clock. A refund with a negative At goes to the fallback, even when the
// store is back, and never to the store, which would take it from the units of others. What was taken from the store is
// only returned to the store: during an outage that is an error, and the caller knows that it was not done. (With Open
// and Closed, nothing was charged where At is negative: a refund does nothing and returns no error. A store that
// receives a negative At without this layer finds no units there either.) A process that settles what the fallback of
// another process took calls its own fallback, which finds nothing unless the same key was charged there at the same
// time.
//
// Reservations and slots follow the same rule. What the fallback took is settled, renewed and released there, once,
// also when the store is back; slots of the fallback do not count in the store. What the store took is settled, renewed
// and released only by the store: during an outage that is an error. Settling again later is safe, and a slot that
// cannot be renewed ends with its time to live. (With Open, a slot was never taken: renewing it succeeds, releasing it
// does nothing.)
//
// A Refund, which has no At, and a charge beyond the quota go to the fallback during an outage, as takes do, and to the
// store at other times. A reset is done in both: the answer is the store's, and so is the error if only the fallback
// was reset.
func Local(fallback store.Store) Policy {
	return Policy{flag: rule.FallbackLocal, fallback: fallback}
}

// Optimistic admits up to k units of a key that the store has not acknowledged, in each process, and charges them to
// the store when it answers again. Its answers carry rule.FallbackOptimistic. It is for stores that are slow or
// unreachable for a short time: the excess is bounded, and the store eventually counts it.
//
// In any window, all processes together admit at most the quota plus k per process. This holds for limits that keep
// their quota in any window, which are sliding logs and overlap whole; other limits admit at most k per process beyond
// what they admit otherwise. It holds whatever is lost on the way:
//
//   - A unit counts here from its admission until the store has acknowledged its charge, or until it is too old to
//     count anywhere: a window and a part.
//   - A charge is never sent twice, because it may have been carried out. Its units count here until they are that old.
//   - After an answer of the store that left no units, nothing is admitted until the time that this answer gave for the
//     next units. (For keys that were exhausted when they took from the store this is best effort: the layer remembers
//     some thousands. The bound does not depend on it.)
//   - A take that the store did not answer in time may have been charged there. It is charged again if it was admitted
//     here, which can only deny more.
//
// Remaining is how many more units this process would admit. RetryAfter is the time until the next probe, or until the
// store's last answer allows more, or Never for a cost above the limit's capacity. No more than the capacity is
// admitted if k is larger. A request with several charges is admitted if each of them can be, and otherwise changes
// none.
//
// A peek changes nothing. A charge beyond the quota is always recorded, and counts. A Refund cancels units that were
// not sent to the store yet, oldest first. Units that were admitted here and are refunded or settled are cancelled if
// they were not sent; otherwise they stay charged, and usage beyond the cost is charged too, once. Slots of in-flight
// limits are not charged at the store: they count here until they are released or their time to live is over, up to k
// at a time. What the store took is refunded, settled and renewed only by the store: during an outage that is an error.
// A reset needs the store too, and then also forgets what is counted here. Requests that are denied here are not
// counted, even if the limit has CountDenied.
//
// Owed units are charged by a goroutine that runs as long as there are any. Close charges them at the end of the
// process; units owed by a process that was killed are lost, and stay within its k.
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

// Options configures a Store. The zero value is valid.
type Options struct {
	// Timeout is how long a request may take. 0 means 100ms; the maximum is 24 hours. Time in which this process does
	// not run, because it is stopped or starved of CPU, does not count: the store may have answered unseen. If the
	// caller's context ends earlier, that is the caller's error: the policy does not decide, and the call does not
	// count as a failure of the store. So Timeout should be shorter than the callers' own deadlines.
	Timeout time.Duration
	// Failures is how many consecutive calls must fail before the store is no longer called. 0 means 1: then a store
	// that is down delays only the first request, and a single slow answer causes one ProbeEvery of fallback. A call
	// fails if it takes longer than Timeout, even if an answer then comes, which is used; or if the store answered none
	// of its requests.
	Failures int
	// ProbeEvery is how long the store is not called after it failed, and the interval between probes. A probe is an
	// ordinary request: its caller gets the store's answer if it comes in time. 0 means 1s, or Timeout if that is
	// longer. It must not be shorter than Timeout, so that one probe ends before the next begins; the maximum is 24
	// hours.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits, for Local only: the fallback divides each limit's quota and
	// burst by it, rounded up, at least 1, so that together they admit about as much as the store would. (A bucket that
	// would then take more than five years to fill, which is invalid, gets one unit of burst less.) A cost that is too
	// large for a share, but not for the limit, is denied until the next probe. 0 means 1: every process admits the
	// whole quota.
	Instances int
	// MaxDetached is for stores that may not return when their context ends. If it is not 0, every call to the store
	// runs on its own goroutine, with its own copy of the request, and a caller whose time is over does not wait for
	// it. At most that many calls are in flight at a time, including abandoned ones until the store returns from them;
	// beyond that, the policy decides immediately. Set it well above the usual number of calls in flight. A panic in a
	// detached call is a failure of the store. 0 means that calls run on the caller's goroutine, which is faster and
	// trusts the store.
	MaxDetached int
	// MaxPending bounds what is remembered, for Optimistic only: keys plus their requests, where requests in short
	// succession count as one. Beyond it requests are denied, as by Closed. 0 means 65,536, which takes some 10 MB.
	MaxPending int
	// OnFallback is called for each request that the policy decided, on the caller's goroutine, before the answer is
	// returned. The error is the reason why the store did not answer; it contains no key. OnFallback must be quick and
	// safe for concurrent use. nil disables it.
	OnFallback func(ctx context.Context, op rule.Op, err error)
	// OnChange is called with the reason when the store is no longer called, and with nil when it has answered a probe
	// and is called again. It is called once per change, on the goroutine of a caller, before that caller gets its
	// answer. Calls may overlap where changes follow each other closely; Stats.Down has the current state. OnChange
	// must be quick and safe for concurrent use. nil disables it.
	OnChange func(err error)
}

// maxDuration is the maximum of durations in Options: far beyond what is useful, and sums of it do not overflow.
const maxDuration = 24 * time.Hour

// ErrUnavailable is wrapped by errors about a store that failed, along with the store's own error.
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
	case o.Timeout < 0 || o.Timeout > maxDuration:
		return fmt.Errorf("failure: Timeout: must be up to %v, or 0 for the default, not %v", maxDuration, o.Timeout)
	case o.Failures < 0:
		return fmt.Errorf("failure: Failures: must be 1 or more, or 0 for the default, not %d", o.Failures)
	case o.ProbeEvery < o.Timeout || o.ProbeEvery > maxDuration:
		return fmt.Errorf("failure: ProbeEvery: must be from Timeout, %v, up to %v, or 0 for the default, not %v",
			o.Timeout, maxDuration, o.ProbeEvery)
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

// Stats counts events since the layer was created.
type Stats struct {
	Fallbacks int64 // requests that the policy decided
	Undecided int64 // requests that returned an error because the store failed and the policy could not decide
	Failures  int64 // requests that the store failed to answer
	Late      int64 // calls that took longer than Timeout
	Starved   int64 // calls that failed while this process did not run, which do not count against the store
	Outages   int64 // how often the store stopped being called
	Probes    int64 // calls made to find out whether the store is back
	Detached  int64 // detached calls in flight, including abandoned ones
	Owed      int64 // units that Optimistic admitted and has not yet charged
	Unknown   int64 // units that Optimistic sent, and still counts because it is unknown whether they were charged
	Charged   int64 // units that Optimistic charged
	Down      bool  // the store is not called now, except for probes
}
