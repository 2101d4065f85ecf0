package open

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// outages logs when decisions begin to be made without the store, and when the store decides again, with the length of the outage and
// the number of decisions that each failure mode made. Single calls that were late are logged together, at most every lateInterval.
// Each decision is in exactly one line. It is safe for concurrent use.
//
// Both lines are errors: limits are counted less exactly in between, and a log that shows only errors must not have one without the
// other.
type outages struct {
	log   *slog.Logger
	store string
	modes func() string // what decides during an outage

	late atomic.Bool // whether a failure mode has decided since the timer fired last

	mu       sync.Mutex
	observed *observe.Store // counts the decisions; nil before the first
	ended    bool
	began    time.Time // when the outage began; zero if there is none
	first    error     // why the first decision that is not logged yet was late
	logged   [store.Modes]int64
	timer    *time.Timer
}

// lateInterval is the time after which decisions by failure modes are logged if there is no outage.
const lateInterval = 10 * time.Second

// countBy sets where the decisions of failure modes are counted. Probes may have found an outage before.
func (o *outages) countBy(observed *observe.Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.observed = observed
}

// fallback records that a failure mode decides a request.
func (o *outages) fallback(_ context.Context, _ store.Mode, _ rule.Op, err error) {
	if o.late.Load() || o.late.Swap(true) { // true for all but the first
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first = err
	o.schedule()
}

// schedule makes logLate run after lateInterval. The caller holds the lock.
func (o *outages) schedule() {
	switch {
	case o.ended:
	case o.timer == nil:
		o.timer = time.AfterFunc(lateInterval, o.logLate)
	default:
		o.timer.Reset(lateInterval)
	}
}

// change records that an outage has begun because of err, or ended if err is nil.
func (o *outages) change(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.ended || (err != nil) == !o.began.IsZero(): // another node of the store
	case err != nil:
		o.logDecided("the store did not answer some requests in time, and failure modes decided") // before the outage
		o.began = time.Now()
		o.log.Error("no charge can be written to the store; until one can, requests are decided without it",
			slog.String("store", o.store), slog.String("by", o.modes()), slog.Any("error", err))
	default:
		decided, _ := o.unlogged()
		o.log.Error("the store decides again", slog.String("store", o.store), o.lasted(), decided)
		o.began = time.Time{}
		o.late.Store(true) // decisions that are being made now are logged later
		o.schedule()
	}
}

// logLate logs what failure modes decided although there was no outage.
func (o *outages) logLate() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late.Store(false)
	if !o.ended && o.began.IsZero() {
		o.logDecided("the store did not answer some requests in time, and failure modes decided; it is still being called")
	}
}

// logDecided logs decisions that are not logged yet, if there are any. The caller holds the lock.
func (o *outages) logDecided(text string) {
	decided, some := o.unlogged()
	if some {
		o.log.Warn(text, slog.String("store", o.store), decided, slog.Any("first_error", o.first))
	}
}

// lasted returns how long the outage has lasted. The caller holds the lock.
func (o *outages) lasted() slog.Attr {
	return slog.Duration("lasted", time.Since(o.began).Round(time.Millisecond))
}

// unlogged returns how many decisions of each failure mode have not been logged yet, and marks them as logged. The caller holds the
// lock.
func (o *outages) unlogged() (decided slog.Attr, some bool) {
	var each []any
	var now [store.Modes]int64
	if o.observed != nil {
		now = o.observed.Fallbacks()
	}
	for mode, n := range now {
		if n > o.logged[mode] {
			each = append(each, slog.Int64(store.Mode(mode).String(), n-o.logged[mode]))
		}
	}
	o.logged = now
	return slog.Group("decided", each...), len(each) > 0
}

// close logs what is not logged yet.
func (o *outages) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	if o.began.IsZero() {
		o.logDecided("the store did not answer some requests in time, and failure modes decided")
		return nil
	}
	decided, _ := o.unlogged()
	o.log.Error("the service stops; requests were decided without the store until now", slog.String("store", o.store), o.lasted(), decided)
	return nil
}
