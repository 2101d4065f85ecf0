package stores

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/store"
)

// late is a store that is connected to in the background. Until then every request fails, which is for the failure modes
// to answer. It is safe for concurrent use.
type late struct {
	store.Store // a sketch of the store, without a connection, for what takes no I/O: Check and Traits

	link atomic.Pointer[link]
	why  atomic.Pointer[error] // of the last attempt
}

// link is a store that was connected to.
type link struct {
	store   store.Store
	ping    func(context.Context) error
	keepKey func(ctx context.Context, proposed []byte) ([]byte, error)
	rulings rulings.Keeper
	close   func()
	// warnings returns settings of the server under which limits do not hold; nil if there is nothing to ask.
	warnings func(context.Context) ([]string, error)
}

// connector connects once, or says why not. What it returns outlives ctx.
type connector func(ctx context.Context) (*link, error)

// Apply asks the store if it is there.
func (l *late) Apply(ctx context.Context, batch []store.Request) error {
	if link := l.link.Load(); link != nil {
		return link.store.Apply(ctx, batch)
	}
	err := l.down()
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

func (l *late) down() error {
	if why := l.why.Load(); why != nil {
		return *why
	}
	return fmt.Errorf("stores: %w", ErrDown)
}

func (l *late) ping(ctx context.Context) error {
	if link := l.link.Load(); link != nil {
		return link.ping(ctx)
	}
	return l.down()
}

func (l *late) keepKey(ctx context.Context, proposed []byte) ([]byte, error) {
	if link := l.link.Load(); link != nil {
		return link.keepKey(ctx, proposed)
	}
	return nil, l.down()
}

// lateRulings keeps rulings in a store that is connected to in the background.
type lateRulings struct{ late *late }

func (l lateRulings) Load(ctx context.Context, known int64) ([]rulings.Ruling, int64, error) {
	if link := l.late.link.Load(); link != nil {
		return link.rulings.Load(ctx, known)
	}
	return nil, 0, l.late.down()
}

func (l lateRulings) Apply(ctx context.Context, change rulings.Ruling, stale []rulings.Ruling) error {
	if link := l.late.link.Load(); link != nil {
		return link.rulings.Apply(ctx, change, stale)
	}
	return l.late.down()
}

func (l lateRulings) Log(ctx context.Context, n int) ([]rulings.Ruling, error) {
	if link := l.late.link.Load(); link != nil {
		return link.rulings.Log(ctx, n)
	}
	return nil, l.late.down()
}

// The times between attempts to connect grow from the first to the last.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// connectLater returns a store that is connected to as soon as that is possible. It tries once before it returns, so that
// a store which is there is there from the first request on.
func (o *Opened) connectLater(name string, sketch store.Store, connect connector, opts *Options) (store.Store, error) {
	l := &late{Store: sketch}
	if opts.sketch {
		return l, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	o.ping, o.KeepKey, o.Rulings = l.ping, l.keepKey, lateRulings{l}
	o.close = append(o.close, func() error {
		cancel()
		running.Wait()
		if link := l.link.Load(); link != nil {
			link.close()
		}
		return nil
	})
	first := make(chan struct{})
	running.Go(func() {
		log := opts.Logger.With(slog.String("store", name))
		pause := firstPause
		for attempt := 1; ; attempt++ {
			link, err := connect(ctx)
			if err == nil {
				l.link.Store(link)
				log.Info("the store is connected", slog.Int("attempt", attempt))
			} else {
				err = failed(name, fmt.Errorf("%w: %w", ErrDown, err))
				l.why.Store(&err)
			}
			if attempt == 1 {
				close(first)
			}
			if err == nil {
				link.warn(ctx, log)
			}
			if err == nil || ctx.Err() != nil {
				return
			}
			if attempt == 1 {
				log.Warn("the store cannot be reached; trying again in the background", slog.Any("error", err))
			}
			if !sleep(ctx, pause+rand.N(pause/4)) {
				return
			}
			pause = min(2*pause, lastPause)
		}
	})
	timer := time.NewTimer(firstAttempt)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C: // it goes on in the background
	}
	return l, nil
}

// warnPatience is how long the server may take to tell of its settings: nobody waits for it.
const warnPatience = 10 * time.Second

// warn logs settings of the server under which limits do not hold.
func (l *link) warn(ctx context.Context, log *slog.Logger) {
	if l.warnings == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnPatience)
	defer cancel()
	warnings, err := l.warnings(ctx)
	for _, text := range warnings {
		log.Warn("limits do not hold with a setting of the store: " + text)
	}
	if err != nil && ctx.Err() == nil {
		log.Info("the settings of the store could not be read", slog.Any("error", err))
	}
}

// firstAttempt is how long Open waits for a store that neither answers nor refuses: the service listens within a second.
const firstAttempt = 500 * time.Millisecond

// sleep waits, and tells whether ctx did not end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
