package stores

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/layer/observe"
)

// outages logs outages of the store: a line when one begins and a line when it has ended, with its length and with how many
// decisions each failure mode has made. The numbers are those of the metrics, and each decision is in exactly one line. It is safe
// for concurrent use once all modes were added.
//
// The modes have breakers of their own, over one store. An outage begins when the first of them opens. It has ended when one has
// closed and no failure mode has decided anything for as long as settle: by then the others have asked the store too, unless
// nobody asks them anything, and then they say nothing about it.
type outages struct {
	log    *slog.Logger
	store  string
	settle time.Duration
	modes  []*outageMode

	active atomic.Bool // a failure mode has decided something that no line has told yet, or there is an outage

	mu     sync.Mutex
	down   bool // a line says that the store does not answer
	closed bool
	began  time.Time
	ended  time.Time // when a breaker closed; zero while all that were open still are
	first  error     // why the first of these decisions was not the store's, and its mode
	mode   string
	seen   int64 // decisions of all modes, when the timer last fired
	timer  *time.Timer
}

// outageMode is a failure mode.
type outageMode struct {
	name    string
	layer   *failure.Store
	counted *observe.Store
	told    int64 // how many of its decisions are in the log
}

// fewEvery is how often it is logged that failure modes have decided a few requests while the store was still asked.
const fewEvery = 10 * time.Second

func newOutages(log *slog.Logger, store string, settle time.Duration) *outages {
	return &outages{log: log, store: store, settle: settle}
}

// add adds a mode, before anything is asked.
func (o *outages) add(name string, layer *failure.Store, counted *observe.Store) {
	o.modes = append(o.modes, &outageMode{name: name, layer: layer, counted: counted})
}

// fallback takes note that a failure mode answers a request.
func (o *outages) fallback(mode string, err error) {
	if o.active.Load() { // as it is for all but the first request of an outage
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.active.Load() || o.closed {
		return
	}
	o.active.Store(true)
	o.first, o.mode = err, mode
	o.wake(fewEvery)
}

// change takes note that the breaker of a mode has opened, because of an error, or closed, without one.
func (o *outages) change(mode string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed || err == nil && !o.down: // a breaker may close long after the others, when somebody asks it something
	case err == nil:
		o.ended = time.Now()
		o.seen = o.sum()
		o.wake(o.settle)
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

// wake has look called after a while. The caller holds the lock.
func (o *outages) wake(after time.Duration) {
	if o.timer == nil {
		o.timer = time.AfterFunc(after, o.look)
		return
	}
	o.timer.Reset(after)
}

// look logs what is over.
func (o *outages) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	sum := o.sum()
	switch {
	case o.closed || !o.active.Load() || o.down && o.ended.IsZero():
	case o.down && sum != o.seen: // another mode has not asked the store since, or its request took its time
		o.seen = sum
		o.wake(o.settle)
	case o.down:
		o.log.Warn("the store answers again", slog.String("store", o.store),
			slog.Duration("lasted", o.ended.Sub(o.began).Round(time.Millisecond)), o.decided())
		o.down = false
		o.active.Store(false)
	default:
		o.log.Warn("the store did not answer a few requests, and failure modes decided; it is still asked",
			slog.String("store", o.store), o.decided(), slog.String("first_mode", o.mode), slog.Any("first_error", o.first))
		o.active.Store(false)
	}
}

// sum returns how many decisions the failure modes have made.
func (o *outages) sum() (sum int64) {
	for _, m := range o.modes {
		sum += m.counted.Fallbacks()
	}
	return sum
}

// decided returns how many decisions each failure mode has made that were not told yet, and takes them as told. The caller holds
// the lock.
func (o *outages) decided() slog.Attr {
	var each []any
	for _, m := range o.modes {
		now := m.counted.Fallbacks()
		if now > m.told {
			each = append(each, slog.Int64(m.name, now-m.told))
		}
		m.told = now
	}
	return slog.Group("decided", each...)
}

// close logs what was not told yet.
func (o *outages) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.timer != nil {
		o.timer.Stop()
	}
	switch {
	case o.down:
		o.log.Warn("the service ends while the store does not answer", slog.String("store", o.store),
			slog.Duration("lasted", time.Since(o.began).Round(time.Millisecond)), o.decided())
	case o.active.Load():
		o.log.Warn("the store did not answer a few requests, and failure modes decided",
			slog.String("store", o.store), o.decided(), slog.String("first_mode", o.mode), slog.Any("first_error", o.first))
	}
	return nil
}
