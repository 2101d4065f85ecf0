package stack

import (
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
	// ProbeEvery is how often a store that does not answer is tried; see failure.Options.
	ProbeEvery time.Duration
	// Instances is how many processes share the limits: what they count themselves while the store does not answer is divided
	// by it, so that they admit about one quota together. 0 means 1: each of them admits a whole quota.
	Instances int
	// LocalBytes is the most memory that is used to count in this process; 0 means the default of memstore.Options. Little
	// of it is used as long as the store answers.
	LocalBytes int64
	// Optimism is how many units of a key store.FailOptimistic admits in each process; 0 means failure.DefaultOptimism.
	Optimism int64
	// RefusalAge is how long a refusal is remembered while the store answers; 0 means a second, negative means not at all. For that
	// long, a key can still be refused here after another process has refunded its units or reset it.
	RefusalAge time.Duration
	// Gather combines more requests into one call; see coalesce.Options. It is for servers that do little else.
	Gather bool
	// Watch probes the store also while no request calls it, so that Health, Stats and OnChange report an outage without
	// traffic. Close ends it.
	Watch bool
	// OnFallback is called for each request that a failure mode decided; see failure.Options. nil disables it.
	OnFallback func(ctx context.Context, mode store.Mode, op rule.Op, err error)
	// OnChange is called when the store is found not to answer, with the reason, and with nil when it is back; see
	// failure.Options. nil disables it.
	OnChange func(err error)
	// Observe wraps the store with its layers in one that observes it, such as the result of observe.New. nil means that none
	// does.
	Observe func(store.Store) (store.Store, error)
}

// maxDuration is the longest duration that the failure layer accepts.
const maxDuration = 24 * time.Hour

// check checks the options also where they have no effect, so that a mistake shows before the store is replaced.
func (o *Options) check() error {
	switch {
	case o.Failure >= store.Modes:
		return fmt.Errorf("stack: Failure: unknown mode %d; want store.FailLocal, FailClosed, FailOptimistic or FailOpen", o.Failure)
	case o.Timeout < 0 || o.Timeout > maxDuration:
		return fmt.Errorf("stack: Timeout: must be up to %v, or 0 for the default, not %v", maxDuration, o.Timeout)
	case o.ProbeEvery < 0 || o.ProbeEvery > maxDuration:
		return fmt.Errorf("stack: ProbeEvery: must be up to %v, or 0 for the default, not %v", maxDuration, o.ProbeEvery)
	case o.Instances < 0:
		return fmt.Errorf("stack: Instances: must be 1 or more, or 0 for 1, not %d", o.Instances)
	case o.LocalBytes < 0:
		return fmt.Errorf("stack: LocalBytes: must be positive, or 0 for the default, not %d", o.LocalBytes)
	case o.Optimism < 0 || o.Optimism > rule.MaxQuota:
		return fmt.Errorf("stack: Optimism: must be 1 to %d units, or 0 for the default, not %d", int64(rule.MaxQuota), o.Optimism)
	}
	return nil
}
