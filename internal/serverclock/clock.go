// Package serverclock follows the clock of a server that can be read only now and then, and not exactly. It is for engines of
// package kvstore. The server's clock was read at some time between sending a request and receiving its response; several readings
// together narrow that down. Between readings the package uses this machine's monotonic clock, so setting the wall clock of this
// machine has no effect.
package serverclock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// Reading is the result of one request to the server: at some time between Sent and Received, its clock showed Shown.
type Reading struct {
	Sent, Received time.Time // by this machine; their monotonic readings count
	Shown          time.Time // by the server
}

const (
	queryEvery   = 5 * time.Second
	queryTimeout = 2 * time.Second
	retryAfter   = time.Second // the pause after a query that failed
	drift        = 200         // parts per million by which two clocks may drift apart
	patience     = time.Second // if the server's clock is set back by up to this much, Now stands still; by more, it goes back too
)

// Clock is the clock of a server, as far as it can be known from here. It is safe for concurrent use. The zero value is not usable;
// call Start.
type Clock struct {
	query func(context.Context) (Reading, error)
	base  time.Time // the origin of the monotonic times
	known atomic.Pointer[known]

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// known holds bounds, derived from readings, on how far the server's clock is ahead of the monotonic clock at a time of the latter.
type known struct {
	at        time.Duration
	low, high time.Duration // at least, and at most
	latest    *atomic.Int64 // the latest time that Now has returned
}

// Start reads the clock once, and then every few seconds until Stop is called. The function query reads the server's clock, or
// returns an error. If a later query fails, it is repeated, and Error grows in the meantime.
func Start(ctx context.Context, query func(context.Context) (Reading, error)) (*Clock, error) {
	c := &Clock{query: query, base: time.Now()}
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.ended.Go(func() { c.follow(ctx) })
	return c, nil
}

// Stop stops reading the clock, and waits for a query that is under way. Now then continues by the monotonic clock.
func (c *Clock) Stop() {
	c.cancel()
	c.ended.Wait()
}

// follow reads the clock until ctx ends.
func (c *Clock) follow(ctx context.Context) {
	timer := time.NewTimer(queryEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if c.read(ctx) == nil {
			timer.Reset(queryEvery)
		} else {
			timer.Reset(retryAfter)
		}
	}
}

// read queries the server once.
func (c *Clock) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	r, err := c.query(ctx)
	if err != nil {
		return err
	}
	c.known.Store(c.known.Load().with(&r, c.base))
	return nil
}

// with returns the bounds after one more reading. A reading outside the known bounds means that the server's clock was set, or that
// another server answered: then only that reading counts.
func (k *known) with(r *Reading, base time.Time) *known {
	sent, received, shown := r.Sent.Sub(base), r.Received.Sub(base), r.Shown.Sub(time.Unix(0, 0))
	// A clock that shows whole microseconds is less than a microsecond ahead of what it shows.
	found := &known{at: received, low: shown - received, high: shown + time.Microsecond - sent}
	if k == nil {
		found.latest = new(atomic.Int64)
		return found
	}
	found.latest = k.latest
	low, high := k.boundsAt(received)
	switch {
	case found.low <= high && low <= found.high:
		found.low, found.high = max(found.low, low), min(found.high, high)
	case found.high < low-patience: // far back: follow the server's clock, as every other store does
		found.latest = new(atomic.Int64)
	}
	return found
}

// boundsAt returns the bounds at a later time, widened by how far the clocks may have drifted apart.
func (k *known) boundsAt(now time.Duration) (low, high time.Duration) {
	apart := max(0, now-k.at) * drift / 1_000_000
	return k.low - apart, k.high + apart
}

// Now returns the server's time. It does not go backwards, unless the server's clock is set back by more than a second. If the
// clock is set back by less, Now stands still until the clock has caught up.
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

// Error reports by how much Now may differ from the server's clock: half of the uncertainty that the round trips leave, and how far
// the clocks may have drifted apart since the last query. It does not cover a clock that was set since then.
func (c *Clock) Error() time.Duration {
	low, high := c.known.Load().boundsAt(time.Since(c.base))
	return (high - low + 1) / 2
}
