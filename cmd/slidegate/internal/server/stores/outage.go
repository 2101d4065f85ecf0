package stores

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/layer/observe"
)

// outages logs outages of the store: a line when one begins and a line when it has ended, with its length and the number of
// decisions that each failure mode made. The numbers agree with the metrics, and each decision is in exactly one line. It is safe
// for concurrent use after all modes have been added.
//
// Each mode has its own breaker over the same store. An outage begins when the first breaker opens. It has ended when a breaker has
// closed and no failure mode has decided anything for quietPeriod. By then the other modes have called the store too, unless they
// received no requests and do not matter.
type outages struct {
	log         *slog.Logger
	store       string
	quietPeriod time.Duration
	modes       []*outageMode

	active atomic.Bool // whether there is an outage, or a failure mode has made decisions that are not logged yet

	mu     sync.Mutex
	down   bool // whether the beginning of the outage is logged
	closed bool
	began  time.Time
	ended  time.Time // when a breaker closed; zero while all breakers that opened are still open
	first  error     // the error of the first decision that is not logged yet, and its mode
	mode   string
	seen   int64 // decisions of all modes, when the timer last fired
	timer  *time.Timer
}

// outageMode is a failure mode.
type outageMode struct {
	name     string
	layer    *failure.Store
	observed *observe.Store
	logged   int64 // how many of its decisions are logged
}

// minorInterval is the time after which decisions by failure modes are logged if the store is still being called.
const minorInterval = 10 * time.Second

func newOutages(log *slog.Logger, store string, quietPeriod time.Duration) *outages {
	return &outages{log: log, store: store, quietPeriod: quietPeriod}
}

// add adds a mode. It must be called before any request.
func (o *outages) add(name string, layer *failure.Store, observed *observe.Store) {
	o.modes = append(o.modes, &outageMode{name: name, layer: layer, observed: observed})
}

// fallback records that a failure mode decides a request.
func (o *outages) fallback(mode string, err error) {
	if o.active.Load() { // true for all but the first request of an outage
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.active.Load() || o.closed {
		return
	}
	o.active.Store(true)
	o.first, o.mode = err, mode
	o.schedule(minorInterval)
}

// change records that the breaker of a mode has opened because of err, or closed if err is nil.
func (o *outages) change(mode string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed || err == nil && !o.down: // a breaker may close long after the others, at its next request
	case err == nil:
		o.ended = time.Now()
		o.seen = o.sum()
		o.schedule(o.quietPeriod)
	default:
		o.active.Store(true)
		o.ended = time.Time{}
		if !o.down {
			o.down, o.began = true, time.Now()
			o.log.Warn("the store does not answer; failure modes decide until it does",
				slog.String("store", o.store), slog.String("mode", mode), slog.Any("error", err))
		}
	}
}

// schedule schedules a call of logEnded. The caller holds the lock.
func (o *outages) schedule(after time.Duration) {
	if o.timer == nil {
		o.timer = time.AfterFunc(after, o.logEnded)
		return
	}
	o.timer.Reset(after)
}

// logEnded logs an outage that has ended, or a few failures.
func (o *outages) logEnded() {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum := o.sum()
	switch {
	case o.closed || !o.active.Load() || o.down && o.ended.IsZero():
	case o.down && sum != o.seen: // another mode has not called the store since, or its request was slow
		o.seen = sum
		o.schedule(o.quietPeriod)
	case o.down:
		o.log.Warn("the store answers again", slog.String("store", o.store),
			slog.Duration("lasted", o.ended.Sub(o.began).Round(time.Millisecond)), o.unlogged())
		o.down = false
		o.active.Store(false)
	default:
		o.log.Warn("the store did not answer a few requests, and failure modes decided; it is still being called",
			slog.String("store", o.store), o.unlogged(), slog.String("first_mode", o.mode), slog.Any("first_error", o.first))
		o.active.Store(false)
	}
}

// sum returns how many decisions the failure modes have made.
func (o *outages) sum() (sum int64) {
	for _, m := range o.modes {
		sum += m.observed.Fallbacks()
	}
	return sum
}

// unlogged returns how many decisions of each failure mode have not been logged yet, and marks them as logged. The caller holds the
// lock.
func (o *outages) unlogged() slog.Attr {
	var each []any
	for _, m := range o.modes {
		now := m.observed.Fallbacks()
		if now > m.logged {
			each = append(each, slog.Int64(m.name, now-m.logged))
		}
		m.logged = now
	}
	return slog.Group("decided", each...)
}

// close logs what is not logged yet.
func (o *outages) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	switch {
	case o.down:
		o.log.Warn("the service stops while the store does not answer", slog.String("store", o.store),
			slog.Duration("lasted", time.Since(o.began).Round(time.Millisecond)), o.unlogged())
	case o.active.Load():
		o.log.Warn("the store did not answer a few requests, and failure modes decided",
			slog.String("store", o.store), o.unlogged(), slog.String("first_mode", o.mode), slog.Any("first_error", o.first))
	}
	return nil
}
