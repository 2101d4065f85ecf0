package natskv

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/rule"
)

// clock is the clock of a stream's leader, as far as it can be known from here.
type clock struct {
	engine *Engine
	name   string    // of the message that is written to look at it
	base   time.Time // of the monotonic clock
	best   atomic.Pointer[reading]
	last   atomic.Int64 // the latest time that was handed out, which later ones are not before

	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// reading is what one look at the clock said.
type reading struct {
	at     time.Duration // by the monotonic clock
	offset rule.Micros   // the server's time at that moment, less at
	error  time.Duration // half of the round trip
}

const (
	firstLooks = 3
	lookEvery  = 5 * time.Second
	lookWithin = 2 * time.Second
	drift      = 200 // millionths by which two clocks may drift apart
)

// startClock looks at the clock, and goes on looking until stop is called.
func startClock(ctx context.Context, e *Engine) (*clock, error) {
	c := &clock{engine: e, name: "clock-" + rand.Text(), base: time.Now()}
	for range firstLooks {
		if err := c.look(ctx); err != nil {
			return nil, fmt.Errorf("natskv: the server's clock: %w", err)
		}
	}
	ctx, c.cancel = context.WithCancel(context.Background())
	c.ended.Go(func() {
		ticks := time.NewTicker(lookEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				within, cancel := context.WithTimeout(ctx, lookWithin)
				_ = c.look(within) // the next one may succeed; until then what is known grows less exact
				cancel()
			}
		}
	})
	return c, nil
}

func (c *clock) stop() {
	c.cancel()
	c.ended.Wait()
}

// look writes a message and reads when the server says it was written: between the two moments at which it was sent and acknowledged.
func (c *clock) look(ctx context.Context) error {
	_, revision, err := c.engine.Get(ctx, c.name)
	if err != nil {
		return err
	}
	sent := time.Since(c.base)
	if _, err := c.engine.write(ctx, c.name, nil, revision, time.Minute); err != nil {
		return err
	}
	heard := time.Since(c.base)
	msg, err := c.engine.stream.GetLastMsgForSubject(ctx, c.engine.subject+c.name)
	if err != nil {
		return err
	}
	at := (sent + heard) / 2
	found := &reading{at: at, offset: rule.Micros(msg.Time.UnixMicro()) - rule.Micros(at.Microseconds()), error: (heard - sent) / 2}
	if best := c.best.Load(); best == nil || found.error <= best.errorAt(heard) || found.differs(best, heard) {
		c.best.Store(found)
	}
	return nil
}

// errorAt returns how far a reading may be off at a later moment.
func (r *reading) errorAt(now time.Duration) time.Duration { return r.error + (now-r.at)*drift/1_000_000 }

// differs reports whether the clock cannot be the one that was read before: it was set, or another server leads.
func (r *reading) differs(before *reading, now time.Duration) bool {
	apart := r.offset - before.offset
	return max(apart, -apart).Duration() > r.error+before.errorAt(now)
}

// now returns the server's time. It does not go backwards.
func (c *clock) now() rule.Micros {
	now := int64(c.best.Load().offset) + time.Since(c.base).Microseconds()
	for {
		last := c.last.Load()
		if now <= last {
			return rule.Micros(last)
		}
		if c.last.CompareAndSwap(last, now) {
			return rule.Micros(now)
		}
	}
}

func (c *clock) skew() time.Duration { return c.best.Load().errorAt(time.Since(c.base)) }
