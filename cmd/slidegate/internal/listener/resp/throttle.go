package resp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/windows"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
)

// CL.THROTTLE, compatible with the Redis module redis-cell 0.4, over our token bucket: count units per period, and a
// capacity of max_burst more than one. The errors are also redis-cell's. The difference is that ours is exact:
// redis-cell rounds the time between two units down to nanoseconds. A key keeps what it used when max_burst or count
// change, but starts from scratch with another period. A negative max_burst, count, period or quantity is an error.

const throttleName = "cl.throttle"

const throttleUsage = "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"

// rate holds a client's parameters of a bucket.
type rate struct{ burst, count, period int64 }

// throttle is a bucket's limiter.
type throttle struct {
	rate    rate
	limiter *slidegate.Limiter // nil if not made yet
}

// throttles caches limiters by rate. It is safe for concurrent use.
type throttles struct {
	limiter *slidegate.Limiter
	periods *windows.Registry // nil if there may be any number
	lease   bool              // for buckets that are large enough

	mu       sync.RWMutex
	limiters map[rate]*slidegate.Limiter
}

// maxCached bounds the limiters that are cached. When there are more, the cache is cleared.
const maxCached = 4096

// maxSeconds is more than any limit accepts, and still fits a time.Duration.
const maxSeconds = 1 << 32

func newThrottles(limiter *slidegate.Limiter, periods int, lease bool) *throttles {
	t := &throttles{limiter: limiter, lease: lease, limiters: map[rate]*slidegate.Limiter{}}
	if periods > 0 {
		t.periods = windows.New(periods, nil)
	}
	return t
}

// of returns the limiter for a rate.
func (t *throttles) of(r rate) (*slidegate.Limiter, error) {
	t.mu.RLock()
	limiter := t.limiters[r]
	t.mu.RUnlock()
	if limiter != nil {
		return limiter, nil
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := slidegate.Limit{
		Algorithm: slidegate.TokenBucket, Quota: r.count, Window: time.Duration(r.period) * time.Second, Burst: r.burst + 1, Lease: t.lease,
	}
	if adapter.Check(limit) != nil {
		limit.Lease = false // it may be too small for that
	}
	limiter, err := t.limiter.With(limit)
	if err != nil {
		return nil, err
	}
	if len(t.limiters) >= maxCached {
		clear(t.limiters)
	}
	t.limiters[r] = limiter
	return limiter, nil
}

// errZeroRate has redis-cell's text.
//
//lint:ignore ST1005 clients may look for it
var errZeroRate = errors.New("Zero rates are not supported")

// check rejects parameters that cannot form a limit; the limit itself rejects those that are too large.
func (r rate) check() error {
	switch {
	case r.count == 0 || r.period == 0:
		return errZeroRate
	case r.burst < 0 || r.burst >= rule.MaxQuota:
		return fmt.Errorf("max_burst: must be 0 to %d", int64(rule.MaxQuota-1))
	case r.count < 0:
		return fmt.Errorf("count: must be positive")
	case r.period < 0 || r.period > maxSeconds:
		return fmt.Errorf("period: must be positive, and at most five years")
	}
	return nil
}

// window returns the window of the buckets with this rate.
func (r rate) window() windows.Window {
	return windows.Window{Length: time.Duration(r.period) * time.Second}
}

// address names the connection. Those on a Unix socket have no address of their own.
func (c *conn) address() string {
	if c.remote == "" {
		if c.remote = c.client.RemoteAddr().String(); !strings.Contains(c.remote, ":") {
			c.remote = net.JoinHostPort("unix", strconv.FormatInt(c.id, 10))
		}
	}
	return c.remote
}

// throttleKey runs CL.THROTTLE.
func (c *conn) throttleKey(_ *command, args [][]byte) {
	if len(args) != 5 && len(args) != 6 {
		c.cellError(throttleUsage)
		return
	}
	numbers := [4]int64{3: 1}
	for i, text := range args[2:] {
		n, ok := parseInt(text)
		if !ok {
			c.cellError("Couldn't parse as integer: " + quoted(text))
			return
		}
		numbers[i] = n
	}
	r, quantity := rate{numbers[0], numbers[1], numbers[2]}, numbers[3]
	if c.throttle.limiter == nil || c.throttle.rate != r {
		limiter, err := c.server.throttles.of(r)
		if err != nil {
			c.cellError(err.Error())
			return
		}
		c.throttle = throttle{r, limiter}
	}
	if quantity < 0 {
		c.cellError("quantity: must not be negative")
		return
	}
	if !c.server.throttles.periods.Admit(c.address(), r.window()) {
		c.cellError("period: this connection has too many different periods in use; use one of them, or wait until their keys are full again")
		return
	}
	c.replyThrottle(c.ctx, string(args[1]), quantity)
}

func (c *conn) replyThrottle(ctx context.Context, key string, quantity int64) {
	d, err := c.throttle.limiter.AllowN(ctx, key, unitsToTake(quantity))
	if quantity > rule.MaxQuota { // more than any bucket holds
		d.Allowed, d.RetryAfter = false, slidegate.Never
	}
	if err == nil && d.Flags&rule.FallbackClosed != 0 {
		err = gate.ErrClosed
	}
	if err != nil {
		c.cellError(err.Error())
		return
	}
	c.server.throttles.periods.Keep(c.throttle.rate.window(), d.ResetAfter)
	c.out = appendArray(c.out, 5)
	c.out = appendBool(c.out, !d.Allowed)
	c.out = appendInt(c.out, c.throttle.rate.burst+1)
	c.out = appendInt(c.out, d.Remaining)
	if d.Allowed || d.RetryAfter == slidegate.Never {
		c.out = appendInt(c.out, -1)
	} else {
		c.out = appendInt(c.out, cellSeconds(d.RetryAfter))
	}
	c.out = appendInt(c.out, cellSeconds(d.ResetAfter))
}

// unitsToTake returns how many units to take for a quantity. If it is more than any bucket holds, the result is 0,
// which is a peek.
func unitsToTake(quantity int64) int64 {
	if quantity > rule.MaxQuota {
		return 0
	}
	return quantity
}

// cellSeconds rounds as redis-cell does: up if it is a millisecond or more beyond whole seconds, otherwise down. A
// client that returns then may be up to a millisecond early, and is refused again.
func cellSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		seconds++
	}
	return seconds
}

// cellError replies with an error in redis-cell's format.
func (c *conn) cellError(text string) {
	c.refuse("Cell", "error: Store error: "+text)
}
