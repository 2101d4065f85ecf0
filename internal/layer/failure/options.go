package failure

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. Local is required; the zero value of every other field is valid.
type Options struct {
	// Mode is the failure mode of limits that have none of their own; see store.In. 0 means store.FailLocal.
	Mode store.Mode
	// Local is a store in this process, such as memstore.New returns, that is used for nothing else. It decides in place of
	// the store for limits in the mode FailLocal, and also for limits in the mode FailOpen while the store is only late.
	Local store.Store
	// Timeout is how long a request may take. 0 means 100ms. Time in which this process does
	// not run, because it is stopped or starved of CPU, does not count: the store may have answered unseen. If the
	// caller's context ends earlier, that is the caller's error: no mode decides, and the call says nothing about the
	// store. So Timeout should be shorter than the callers' own deadlines.
	Timeout time.Duration
	// ProbeEvery is the shortest interval between probes of the store, or of one of its nodes. 0 means 1s, or Timeout if
	// that is longer. It must not be shorter than Timeout.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits: Local divides each limit's quota and burst by it, rounded up, at
	// least 1, so that together they admit about as much as the store would. (A bucket that would then take more than five
	// years to fill, which is invalid, gets one unit of burst less.) A cost that is too large for a share, but not for the
	// limit, is refused until the next probe. 0 means 1: every process admits the whole quota.
	Instances int
	// MaxWaiting is how many calls wait for the store at a time. Further requests are not sent, and are answered as if they
	// were late. 0 means 16,384.
	MaxWaiting int
	// Watch probes the store once per ProbeEvery also while it answers, unless other calls were answered since the last
	// time, so that an outage shows without requests. Otherwise the store is probed only while it is out or seems to be.
	Watch bool
	// OnFallback is called for each request that was decided without the store, with the mode that decided, on the caller's
	// goroutine, before the answer is returned. The error is the reason why the store did not answer; it contains no key.
	// OnFallback must be quick and safe for concurrent use. nil disables it.
	OnFallback func(ctx context.Context, mode store.Mode, op rule.Op, err error)
	// OnChange is called with the reason when the store, or one of its nodes, is found to be out, and with nil when all of it
	// is back. Calls do not overlap, and come in the order of the changes. OnChange must be quick; it may call Health and
	// Stats. nil disables it.
	OnChange func(err error)
}

// ErrUnavailable is wrapped by errors about a store that failed, along with the store's own error.
var ErrUnavailable = errors.New("store unavailable")

// fill sets defaults.
func (o *Options) fill() {
	o.Mode = cmp.Or(o.Mode, store.FailLocal)
	o.Timeout = cmp.Or(o.Timeout, 100*time.Millisecond)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, max(time.Second, o.Timeout))
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 1<<14)
}

// Stats counts events since the layer was created.
type Stats struct {
	Fallbacks [store.Modes]int64 // requests that were decided without the store, by the mode that decided
	Refusals  int64              // how many of these were refused because the store had refused them before
	Undecided int64              // requests that returned an error because the store failed and no mode could decide
	Failures  int64              // requests that the store failed to answer
	Late      int64              // calls that took longer than Timeout
	Shed      int64              // requests that were not sent, because their key was late or too many were waiting
	Starved   int64              // calls that failed while this process did not run, which say nothing about the store
	Outages   int64              // how often the store, or a node, was found to be out
	Probes    int64              // probes sent
	Down      bool               // the store, or a node, is out: it is not called now, except for probes
}
