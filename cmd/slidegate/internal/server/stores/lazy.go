package stores

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/store"
)

// lazyStore is a store that connects in the background. Until it is connected, every request fails, and the failure modes
// decide. It is safe for concurrent use.
type lazyStore struct {
	store.Store // without a connection, for methods that need no I/O: Check and Traits

	link    atomic.Pointer[link]
	lastErr atomic.Pointer[error] // the error of the last attempt
}

// link is a connected store.
type link struct {
	store store.Store
	ping  func(context.Context) error
	close func()
	// warnings returns settings of the server under which limits do not hold; nil if there are none to check.
	warnings func(context.Context) ([]string, error)
}

// connector makes one attempt to connect. What it returns outlives ctx.
type connector func(ctx context.Context) (*link, error)

// Apply calls the store if it is connected.
func (l *lazyStore) Apply(ctx context.Context, batch []store.Request) error {
	if link := l.link.Load(); link != nil {
		return link.store.Apply(ctx, batch)
	}
	err := l.down()
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

func (l *lazyStore) down() error {
	if why := l.lastErr.Load(); why != nil {
		return *why
	}
	return fmt.Errorf("stores: %w", ErrDown)
}

func (l *lazyStore) ping(ctx context.Context) error {
	if link := l.link.Load(); link != nil {
		return link.ping(ctx)
	}
	return l.down()
}

// LoadDocument calls the store if it is connected.
func (l *lazyStore) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	documents, err := l.documents()
	if err != nil {
		return nil, 0, err
	}
	return documents.LoadDocument(ctx, name, known)
}

// SwapDocument calls the store if it is connected.
func (l *lazyStore) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	documents, err := l.documents()
	if err != nil {
		return 0, err
	}
	return documents.SwapDocument(ctx, name, document, revision)
}

// documents returns the connected store, all kinds of which keep documents.
func (l *lazyStore) documents() (store.Documents, error) {
	if link := l.link.Load(); link != nil {
		return link.store.(store.Documents), nil
	}
	return nil, l.down()
}

// The pause between attempts to connect grows from firstPause to lastPause.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// connectLater returns a store that connects as soon as possible. It makes one attempt before it returns, so that a store that is
// up is connected before the first request.
func (o *Opened) connectLater(name string, offline store.Store, connect connector, opts *Options) (store.Store, error) {
	l := &lazyStore{Store: offline}
	if opts.offline {
		return l, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	o.ping = l.ping
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
				l.lastErr.Store(&err)
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
	case <-timer.C: // it continues in the background
	}
	return l, nil
}

// warnTimeout is how long reading the server's settings may take. Nothing waits for it.
const warnTimeout = 10 * time.Second

// warn logs settings of the server under which limits do not hold.
func (l *link) warn(ctx context.Context, log *slog.Logger) {
	if l.warnings == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, warnTimeout)
	defer cancel()
	warnings, err := l.warnings(ctx)
	for _, text := range warnings {
		log.Warn("limits do not hold under a setting of the store: " + text)
	}
	if err != nil && ctx.Err() == nil {
		log.Info("the settings of the store could not be read", slog.Any("error", err))
	}
}

// firstAttempt is how long Open waits for a store that neither accepts nor refuses connections, so that the service listens within a
// second.
const firstAttempt = 500 * time.Millisecond

// sleep waits for d, and reports false if ctx ended first.
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
