// Package serverclock follows the clock of a server that can be read only now and then, and not exactly: it is for engines of
// package kvstore. The server's time was somewhere between the moments at which a question was sent and its answer was heard;
// several readings together narrow that down. Between readings this machine's monotonic clock goes on, so that setting the wall
// clock of this machine changes nothing.
package serverclock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// Reading is what one question to the server told: at some moment between Sent and Heard, its clock showed Shown.
type Reading struct {
	Sent, Heard time.Time // by this machine; their monotonic readings count
	Shown       time.Time // by the server
}

const (
	lookEvery  = 5 * time.Second
	lookWithin = 2 * time.Second
	retryAfter = time.Second // when the next look is after one that failed
	drift      = 200         // millionths by which two clocks may drift apart
	patience   = time.Second // how far back the server's clock may be set so that Now waits for it
)

// Clock is the clock of a server, as far as it can be known from here. It is safe for concurrent use. The zero value is not
// usable; Start makes it.
type Clock struct {
	look  func(context.Context) ([]Reading, error)
	base  time.Time // from which the monotonic clock counts
	known atomic.Pointer[known]

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// known is what readings have told: by how much the server's clock is ahead of the monotonic clock, at a moment of the latter.
type known struct {
	at        time.Duration
	low, high time.Duration // at least, and at most
	latest    *atomic.Int64 // the latest time that Now has returned
}

// Start reads the clock once, and then every few seconds until Stop is called. The function look asks the server, and returns at
// least one reading or an error. A look that fails later is repeated, and Error grows meanwhile.
func Start(ctx context.Context, look func(context.Context) ([]Reading, error)) (*Clock, error) {
	c := &Clock{look: look, base: time.Now()}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.ended.Go(func() { c.follow(ctx) })
	return c, nil
}

// Stop ends the looks, and waits until the last one is over. Now goes on by the monotonic clock.
func (c *Clock) Stop() {
	c.cancel()
	c.ended.Wait()
}

// follow reads the clock until ctx ends.
func (c *Clock) follow(ctx context.Context) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if c.read(ctx) == nil {
			timer.Reset(lookEvery)
		} else {
			timer.Reset(retryAfter)
		}
	}
}

// read looks at the clock once.
func (c *Clock) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	readings, err := c.look(ctx)
	if err == nil && len(readings) == 0 {
		err = errors.New("the server did not tell its time")
	}
	if err != nil {
		return err
	}
	k := c.known.Load()
	for _, r := range readings {
		k = k.with(&r, c.base)
	}
	c.known.Store(k)
	return nil
}

// with returns what is known after one more reading. A reading that contradicts all that was known means that the server's clock
// was set, or is another server's: then only that reading counts.
func (k *known) with(r *Reading, base time.Time) *known {
	sent, heard, shown := r.Sent.Sub(base), r.Heard.Sub(base), r.Shown.Sub(time.Unix(0, 0))
	// What a clock shows in whole microseconds was reached less than a microsecond ago.
	found := &known{at: heard, low: shown - heard, high: shown + time.Microsecond - sent}
	if k == nil {
		found.latest = new(atomic.Int64)
		return found
	}
	found.latest = k.latest
	low, high := k.boundsAt(heard)
	switch {
	case found.low <= high && low <= found.high:
		found.low, found.high = max(found.low, low), min(found.high, high)
	case found.high < low-patience: // far back: as with every other store, the server's clock decides
		found.latest = new(atomic.Int64)
	}
	return found
}

// boundsAt returns what is known at a later moment, by which the clocks may have drifted apart.
func (k *known) boundsAt(now time.Duration) (low, high time.Duration) {
	apart := max(0, now-k.at) * drift / 1_000_000
	return k.low - apart, k.high + apart
}

// Now returns the server's time. It does not go backwards, unless the server's clock is set back by more than a second: up to that
// it stands still until the server's clock has caught up.
func (c *Clock) Now() rule.Micros {
	k := c.known.Load()
	now := (k.low + (k.high-k.low)/2 + time.Since(c.base)).Microseconds()
	for {
		latest := k.latest.Load()
		if now <= latest {
			return rule.Micros(latest)
		}
		if k.latest.CompareAndSwap(latest, now) {
			return rule.Micros(now)
		}
	}
}

// Error reports by how much Now may differ from the server's clock: half of what the round trips left open, and what the clocks may
// have drifted apart since the last look. It does not cover a clock that was set since then.
func (c *Clock) Error() time.Duration {
	low, high := c.known.Load().boundsAt(time.Since(c.base))
	return (high - low + 1) / 2
}
