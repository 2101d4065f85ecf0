package slidegate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Limiter decides requests by limits, over a Store. It is safe for concurrent use. The zero value is not usable; call New.
type Limiter struct {
	store     store.Store
	taker     store.SingleTaker // the store, if it is a SingleTaker
	soleTaker store.SingleTaker // the same, if there is exactly one limit
	soleLimit *store.Limit      // that one limit
	traits    store.Traits
	opts      Options
	limits    []*store.Limit
	bases     []Limit // the limit that each of opts.Limits counts like, or the zero value; nil if none of them does
	bound     *boundLimits
}

// Options configures a Limiter. Limits is required.
type Options struct {
	// Namespace separates the state of this limiter from that of other limiters on the same store.
	Namespace string
	// Limits apply to every key together: all of them admit and are charged, or none is. At least one is required.
	Limits []Limit
}

// New returns a limiter that applies all the limits to every key. At least one limit is required; for limits given per
// call, use NewPerCall.
func New(store store.Store, limits ...Limit) (*Limiter, error) {
	return NewWithOptions(store, Options{Limits: limits})
}

// MustNew is like New but panics if New would return an error. It is for limits known to be valid.
func MustNew(store store.Store, limits ...Limit) *Limiter {
	l, err := New(store, limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// NewWithOptions returns a limiter with options. It returns an error if there is no limit, if one is invalid, or if the
// store cannot keep one exactly. It also returns an error if a limit without a name would share the counts of another
// limiter's limit; see Limit.Name.
func NewWithOptions(on store.Store, opts Options) (*Limiter, error) {
	if !isNil(on) && len(opts.Limits) == 0 {
		return nil, fmt.Errorf("slidegate: %w: no limits; pass at least one, or use NewPerCall for limits given per call",
			ErrLimit)
	}
	l, err := newLimiterOn(on, opts)
	if err == nil {
		err = l.Declare()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// NewPerCall returns a limiter that has no limits and takes them per call, in AllowLimit, For and With. Allow and the
// other methods that take only a key return an error. Namespace separates its state from that of other limiters on the
// same store; it may be empty.
func NewPerCall(store store.Store, namespace string) (*Limiter, error) {
	return newLimiterOn(store, Options{Namespace: namespace})
}

func newLimiterOn(store store.Store, opts Options) (*Limiter, error) {
	if isNil(store) {
		return nil, errNoStore()
	}
	return newLimiter(store, opts, nil, &boundLimits{namespace: opts.Namespace, store: store})
}

// isNil reports whether a store is nil, or a nil pointer of a store's type.
func isNil(on store.Store) bool {
	value := reflect.ValueOf(on)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}

// errNoContext is returned instead of the panic that calling a method of a nil context would be.
var errNoContext = errors.New("slidegate: ctx: must not be nil; use context.Background if there is no other")

func errNoStore() error {
	return errors.New("slidegate: store: must not be nil; memstore.NewDefault returns one that needs no configuration")
}

func newLimiter(on store.Store, opts Options, bases []Limit, bound *boundLimits) (*Limiter, error) {
	opts.Limits = slices.Clone(opts.Limits) // the caller may reuse the slice
	l := &Limiter{store: on, traits: on.Traits(), opts: opts, bases: bases, bound: bound}
	for i, limit := range opts.Limits {
		var base Limit
		if bases != nil {
			base = bases[i]
		}
		b, err := bound.bindLike(limit, base)
		if err != nil {
			return nil, err
		}
		for _, other := range l.limits {
			if other.Prefix() == b.Prefix() {
				return nil, fmt.Errorf("slidegate: %w: %q and %q; give them different names", ErrConflict, Unbind(other), Unbind(b))
			}
		}
		l.limits = append(l.limits, b)
	}
	if len(l.limits) > l.traits.MaxCharges {
		return nil, fmt.Errorf("slidegate: %w: %d limits; the %s store decides at most %d atomically",
			ErrUnsupported, len(l.limits), l.traits.Name, l.traits.MaxCharges)
	}
	l.taker, _ = on.(store.SingleTaker)
	if len(l.limits) == 1 && l.limits[0].Rule().Algorithm != InFlight {
		l.soleTaker, l.soleLimit = l.taker, l.limits[0]
	}
	return l, nil
}

// With returns a limiter with other limits on the same store and namespace: one for each plan, for example. A limit of the
// same name and shape shares its counts with this limiter's limit, so a key that changes plans keeps what it has used. A
// limit that leaves the algorithm to the default takes the algorithm of this limiter's limit of the same name and window,
// if there is one; see Limit.Like. So plans of 60 and 600 per minute share their counts.
func (l *Limiter) With(limits ...Limit) (*Limiter, error) {
	opts := l.opts
	opts.Limits = limits
	return newLimiter(l.store, opts, l.basesOf(limits), l.bound)
}

// basesOf returns, for each of limits, the limit of l that it counts like, or the zero value if there is none.
func (l *Limiter) basesOf(limits []Limit) (bases []Limit) {
	for i := range limits {
		for _, own := range l.limits {
			base := Unbind(own)
			if base.Name != limits[i].Name || base.Window != limits[i].Window || limits[i].Algorithm != DefaultAlgorithm ||
				base.Algorithm == InFlight { // its window is a time to live
				continue
			}
			if alone, err := limits[i].compile(); err == nil && alone.Algorithm == base.Algorithm {
				continue
			}
			if bases == nil {
				bases = make([]Limit, len(limits))
			}
			bases[i] = base
			break
		}
	}
	return bases
}

// Declare registers the limits with the store. It returns ErrConflict if one of them has no name and would share the
// counts of another limiter's limit; see Limit.Name. New calls it. It is for adapters that get their limiters from
// With, which does not call it because its limits may share counts.
func (l *Limiter) Declare() error {
	if declarer, ok := store.As[store.Declarer](l.store); ok {
		return declarer.Declare(l.limits...)
	}
	return nil
}

// Over returns a limiter with the same limits and namespace over the store that wrap returns. Wrap receives this limiter's
// store, so that a middleware can put a layer under a limiter created elsewhere.
func (l *Limiter) Over(wrap func(store.Store) (store.Store, error)) (*Limiter, error) {
	on, err := wrap(l.store)
	if err != nil {
		return nil, err
	}
	if isNil(on) {
		return nil, errNoStore()
	}
	return newLimiter(on, l.opts, l.bases, &boundLimits{namespace: l.opts.Namespace, store: on})
}

// Limits returns the limits that apply to every key, as they were given. In a limiter from With, a limit that took the
// algorithm of another limiter's limit names it.
func (l *Limiter) Limits() []Limit {
	limits := slices.Clone(l.opts.Limits)
	for i := range l.bases {
		limits[i] = limits[i].Like(l.bases[i])
	}
	return limits
}

// Bound returns the limits that apply to every key as stores see them, in the order of Limits. It is for adapters that send
// a store their own batches.
func (l *Limiter) Bound() []*store.Limit { return slices.Clone(l.limits) }

// Allow takes one unit.
func (l *Limiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	err = l.AllowInto(ctx, key, 1, &d)
	return d, err
}

// AllowN takes n units, all or none. A cost of 0 is a peek.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (d Decision, err error) {
	err = l.AllowInto(ctx, key, n, &d)
	return d, err
}

// AllowInto is AllowN for adapters that already have memory for the Decision. It fills d, which must be the zero value,
// and leaves it unchanged on error. Copying a Decision takes a measurable part of the time of an in-process decision.
func (l *Limiter) AllowInto(ctx context.Context, key string, n int64, d *Decision) (err error) {
	if l.soleTaker == nil || uint64(n) > rule.MaxQuota {
		*d, err = l.keyCall(key, n).decide(ctx, rule.Take)
		return err
	}
	if ctx == nil {
		return errNoContext
	}
	limit := l.soleLimit
	allowed, flags, remaining, after, resetAfter, at, err := l.soleTaker.TakeSingle(ctx, limit, key, n)
	if err == nil {
		d.fill(limit, allowed, flags, n, remaining, after, resetAfter, at)
	}
	return err
}

// AllowLimit takes one unit of key under a limit given with the call; the limiter's own limits do not apply. Limits are
// cached, so giving the same one again is cheap. If the limits of several plans must share their counts and their quotas
// lie on both sides of 100, name the algorithm in all of them.
func (l *Limiter) AllowLimit(ctx context.Context, key string, limit Limit) (d Decision, err error) {
	bound, err := l.bound.bind(limit)
	if err != nil {
		return d, err
	}
	if l.taker == nil || bound.Rule().Algorithm == InFlight {
		c := newCall(l, 1)
		c.add(store.Charge{Limit: bound, Key: key, Cost: 1})
		return c.decide(ctx, rule.Take)
	}
	if ctx == nil {
		return d, errNoContext
	}
	allowed, flags, remaining, after, resetAfter, at, err := l.taker.TakeSingle(ctx, bound, key, 1)
	if err != nil {
		return d, err
	}
	d.fill(bound, allowed, flags, 1, remaining, after, resetAfter, at)
	return d, nil
}

// AllowUpTo takes as much of n units as the limits admit now, at least one. Decision.Granted is how many units it took.
func (l *Limiter) AllowUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).decide(ctx, rule.TakeUpTo)
}

// Peek returns what Allow would return, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.PeekN(ctx, key, 1)
}

// PeekN returns what AllowN would return, and charges nothing.
func (l *Limiter) PeekN(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).oneSlot(min(n, 1)).decide(ctx, rule.Peek)
}

// Wait waits until one unit is admitted, and takes it; see WaitN.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN waits until n units are admitted, and takes them. It returns immediately with ErrNever if they can never be
// admitted, and with a *DeadlineError if ctx would end first. Waiters on the same key are not served in FIFO order.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	return l.keyCall(key, n).wait(ctx)
}

// Reserve takes an estimate of n units now, to be settled when the actual cost is known; see Reservation. It takes one slot
// of each in-flight limit, whatever n is.
//
// If ctx ends while the store is asked, Reserve returns ctx's error at once, and what the store takes is cancelled as soon
// as it answers. If the store returns an error, or its answer is lost too, the units may stay charged until they leave the
// window.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, Decision, error) {
	return l.keyCall(key, n).oneSlot(1).reserve(ctx)
}

// Charge charges n units to key without a check, even beyond the quota: they have been used already. N must be at least 1.
// The Decision is what Peek would return afterwards, except that Allowed is always true. Charge finishes even if ctx has
// ended, as Settle does.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("slidegate: %w: a charge must be 1 to %d, not %d; to give units back use Refund",
			ErrCost, int64(rule.MaxQuota), n)
	}
	return l.keyCall(key, n).decide(ctx, rule.Charge)
}

// Refund returns n units to key, the oldest live ones first, no matter which request took them. Units that have left the
// window cannot be returned. Use Reserve and Cancel to return exactly what one request took. Refund finishes even if ctx
// has ended, as Settle does. The slots of in-flight limits stay held, because the requests that hold them are still
// running; only a limiter that has no other limits frees n slots, the least recently renewed first.
func (l *Limiter) Refund(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).refund(ctx)
}

// refund returns units. Slots stay held if the request has other limits.
func (c *call) refund(ctx context.Context) (Decision, error) {
	if c.slots && slices.ContainsFunc(c.charges, func(charge store.Charge) bool { return !isSlot(&charge) }) {
		c.oneSlot(0)
	}
	return c.decide(ctx, rule.GiveBack)
}

// Reset deletes what key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.keyCall(key, 0).decide(ctx, rule.Reset)
	return err
}

// oneSlot sets the cost of in-flight limits, which take one slot whatever the request costs.
func (c *call) oneSlot(cost int64) *call {
	for i := range c.charges {
		if charge := &c.charges[i]; c.slots && isSlot(charge) {
			charge.Cost = cost
		}
	}
	return c
}

// keyCall returns a call over the limiter's own limits, all with the same key and cost.
func (l *Limiter) keyCall(key string, n int64) *call {
	c := newCall(l, len(l.limits))
	if len(l.limits) == 0 {
		c.fail(fmt.Errorf("slidegate: %w: this limiter has no limits; pass some to New, or use AllowLimit, For or With", ErrLimit))
	}
	for _, limit := range l.limits {
		c.add(store.Charge{Limit: limit, Key: key, Cost: n})
	}
	return c
}
