package stack

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Store. The zero value is valid.
type Options struct {
	// Failure is the failure mode of limits that have none of their own; 0 means store.FailLocal.
	Failure store.Mode
	// Timeout is how long a decision may take before the failure mode decides. 0 means 100ms, the maximum is 24 hours.
	Timeout time.Duration
	// ProbeEvery is how often a store that does not answer is tried, at most. 0 means 1s, or Timeout if that
	// is longer. It must not be shorter than Timeout; the maximum is 24 hours.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits: what they count themselves while the store does not answer is divided
	// by it, so that they admit about one quota together. 0 means 1: each of them admits a whole quota.
	Instances int
	// LocalBytes is the most memory that is used to count in this process; 0 means the default of memstore.Options. Little
	// of it is used as long as the store answers.
	LocalBytes int64
	// RefusalAge is how long a refusal is remembered while the store answers; 0 means a second, negative means not at all. For that
	// long, a key can still be refused here after another process has refunded its units or reset it.
	RefusalAge time.Duration
	// Gather makes fewer and larger calls out of bursts, which are usual in a server that reads requests from its connections
	// together. It is for servers that do little else: where goroutines compute for long, a call waits for a turn of each.
	Gather bool
	// Watch probes the store also while no request calls it, so that Health, Stats and OnChange report an outage without
	// traffic. Close ends it.
	Watch bool
	// OnFallback is called for each request that a failure mode decided, with that mode and the reason why the store did not
	// answer, which contains no key. It runs on the caller's goroutine, and must be quick and safe for concurrent use. nil
	// disables it.
	OnFallback func(ctx context.Context, mode store.Mode, op rule.Op, err error)
	// OnChange is called when the store, or one of its nodes, is found not to answer, with the reason, and with nil when all of it
	// is back. Calls do not overlap, and come in the order of the changes. It must be quick; it may call Health and Stats. nil
	// disables it.
	OnChange func(err error)
	// Observe wraps the store with its layers in one that observes it, such as the result of observe.New. nil means that none
	// does.
	Observe func(store.Store) (store.Store, error)
}

const (
	defaultTimeout = 100 * time.Millisecond
	maxDuration    = 24 * time.Hour // far beyond what is useful, and sums of it do not overflow
)

// check checks the options also where they have no effect, so that a mistake shows before the store is replaced.
func (o *Options) check() error {
	switch {
	case o.Failure >= store.Modes:
		return fmt.Errorf("stack: Failure: unknown mode %d; want store.FailLocal, FailClosed or FailOpen", o.Failure)
	case o.Timeout < 0 || o.Timeout > maxDuration:
		return fmt.Errorf("stack: Timeout: must be up to %v, or 0 for the default, not %v", maxDuration, o.Timeout)
	case o.ProbeEvery != 0 && o.ProbeEvery < cmp.Or(o.Timeout, defaultTimeout) || o.ProbeEvery > maxDuration:
		return fmt.Errorf("stack: ProbeEvery: must be from Timeout, %v, up to %v, or 0 for the default, not %v",
			cmp.Or(o.Timeout, defaultTimeout), maxDuration, o.ProbeEvery)
	case o.Instances < 0:
		return fmt.Errorf("stack: Instances: must be 1 or more, or 0 for 1, not %d", o.Instances)
	case o.LocalBytes < 0:
		return fmt.Errorf("stack: LocalBytes: must be positive, or 0 for the default, not %d", o.LocalBytes)
	}
	return nil
}
