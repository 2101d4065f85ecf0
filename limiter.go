package slidegate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Limiter decides requests by limits, over a Store. It is safe for concurrent use. The zero value is not usable; New
// makes it.
type Limiter struct {
	store  store.Store
	taker  store.SingleTaker // the store, if it can
	one    store.SingleTaker // the same, if there is exactly one limit,
	only   *store.Limit      // and that limit
	traits store.Traits
	opts   Options
	limits []*store.Limit
	bases  []Limit // what each of opts.Limits counts like, or the zero value; nil if none counts like another
	bound  *boundLimits
}

// Options are the settings of a Limiter. Limits are required.
type Options struct {
	// Namespace keeps the state of this limiter apart from that of others on the same store.
	Namespace string
	// Limits are what every key faces, all at once: all admit and all are charged, or none is. At least one is required.
	Limits []Limit
}

// New returns a limiter in which every key faces all the limits. There must be at least one; NewPerCall makes a limiter for
// limits that are given per call.
func New(store store.Store, limits ...Limit) (*Limiter, error) {
	return NewWithOptions(store, Options{Limits: limits})
}

// MustNew is New for limits that are known to be right. It panics where New returns an error.
func MustNew(store store.Store, limits ...Limit) *Limiter {
	l, err := New(store, limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// NewWithOptions returns a limiter with options. A wrong limit, none at all, or one that the store cannot keep exactly, is
// an error. So is a limit without a name that would share the counts of another limiter's; see Limit.Name.
func NewWithOptions(on store.Store, opts Options) (*Limiter, error) {
	if on != nil && len(opts.Limits) == 0 {
		return nil, fmt.Errorf("slidegate: %w: there is none; give at least one, or use NewPerCall for limits that are given per call",
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

// NewPerCall returns a limiter without limits of its own, for limits that are given per call: to AllowLimit, For and With.
// Its Allow and the other methods that take only a key return an error. Namespace keeps its state apart from that of others
// on the same store; it may be empty.
func NewPerCall(store store.Store, namespace string) (*Limiter, error) {
	return newLimiterOn(store, Options{Namespace: namespace})
}

func newLimiterOn(store store.Store, opts Options) (*Limiter, error) {
	if store == nil {
		return nil, errNoStore()
	}
	return newLimiter(store, opts, nil, &boundLimits{namespace: opts.Namespace, store: store})
}

func errNoStore() error {
	return errors.New("slidegate: store: must not be nil; memstore.NewDefault makes one that needs nothing")
}

func newLimiter(on store.Store, opts Options, bases []Limit, bound *boundLimits) (*Limiter, error) {
	opts.Limits = slices.Clone(opts.Limits) // the caller may use the slice for something else
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
		return nil, fmt.Errorf("slidegate: %w: %d limits at once, the %s store decides at most %d atomically",
			ErrUnsupported, len(l.limits), l.traits.Name, l.traits.MaxCharges)
	}
	l.taker, _ = on.(store.SingleTaker)
	if len(l.limits) == 1 && l.limits[0].Rule().Algorithm != InFlight {
		l.one, l.only = l.taker, l.limits[0]
	}
	return l, nil
}

// With returns a limiter of other limits on the same store and namespace: one for each plan, say. A limit of the same
// name and shape shares its counts with this limiter's, so a key that changes plans keeps what it has used. A limit that
// leaves the algorithm to the default has that of this limiter's limit of the same name and window, if there is one: see
// Limit.Like. So plans of 60 and 600 per minute share their counts.
func (l *Limiter) With(limits ...Limit) (*Limiter, error) {
	opts := l.opts
	opts.Limits = limits
	return newLimiter(l.store, opts, l.basesOf(limits), l.bound)
}

// basesOf returns the limits of l that those of another plan count like; the zero value for one that counts as it would alone.
func (l *Limiter) basesOf(limits []Limit) (bases []Limit) {
	for i := range limits {
		for _, own := range l.limits {
			base := Unbind(own)
			if base.Name != limits[i].Name || base.Window != limits[i].Window || limits[i].Algorithm != DefaultAlgorithm ||
				base.Algorithm == InFlight { // whose window is a time to live
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

// Declare tells the store the limits, and returns ErrConflict if one of them has no name and would share the counts of another
// limiter's; see Limit.Name. New does so by itself. It is for adapters whose limiters come from With, which may share counts.
func (l *Limiter) Declare() error {
	if declarer, ok := store.As[store.Declarer](l.store); ok {
		return declarer.Declare(l.limits...)
	}
	return nil
}

// Over returns a limiter of the same limits and namespace over the store that wrap returns. Wrap is given this limiter's
// store, so that a middleware can put a layer under a limiter that was made elsewhere.
func (l *Limiter) Over(wrap func(store.Store) (store.Store, error)) (*Limiter, error) {
	on, err := wrap(l.store)
	if err != nil {
		return nil, err
	}
	if on == nil {
		return nil, errNoStore()
	}
	return newLimiter(on, l.opts, l.bases, &boundLimits{namespace: l.opts.Namespace, store: on})
}

// Limits returns the limits that every key faces, as they were given. Those of a limiter from With that have the algorithm
// of another limiter's limit name it.
func (l *Limiter) Limits() []Limit {
	limits := slices.Clone(l.opts.Limits)
	for i := range l.bases {
		limits[i] = limits[i].Like(l.bases[i])
	}
	return limits
}

// Bound returns the limits that every key faces as stores see them, in the order of Limits. It is for adapters that send
// a store batches of their own.
func (l *Limiter) Bound() []*store.Limit { return slices.Clone(l.limits) }

// Allow asks for one unit.
func (l *Limiter) Allow(ctx context.Context, key string) (d Decision, err error) {
	err = l.AllowInto(ctx, key, 1, &d)
	return d, err
}

// AllowN asks for n units, all or none. A cost of 0 is a peek.
func (l *Limiter) AllowN(ctx context.Context, key string, n int64) (d Decision, err error) {
	err = l.AllowInto(ctx, key, n, &d)
	return d, err
}

// AllowInto is AllowN for adapters that have a place for the Decision: it fills d, which must be the zero value, and leaves it
// so if there is an error. To copy a Decision takes a part of the time of one in process that can be measured.
func (l *Limiter) AllowInto(ctx context.Context, key string, n int64, d *Decision) (err error) {
	if l.one == nil || uint64(n) > rule.MaxQuota {
		*d, err = l.keyCall(key, n).decide(ctx, rule.Take)
		return err
	}
	limit := l.only
	allowed, flags, remaining, after, resetAfter, at, err := l.one.TakeSingle(ctx, limit, key, n)
	if err == nil {
		d.fill(limit, allowed, flags, n, remaining, after, resetAfter, at)
	}
	return err
}

// AllowLimit asks for one unit of key under a limit that is given now; the limiter's own limits have no part in it. Limits
// are remembered, so giving the same one again is cheap. Where the limits of plans must share their counts and their quotas
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
	allowed, flags, remaining, after, resetAfter, at, err := l.taker.TakeSingle(ctx, bound, key, 1)
	if err != nil {
		return d, err
	}
	d.fill(bound, allowed, flags, 1, remaining, after, resetAfter, at)
	return d, nil
}

// AllowUpTo asks for as much of n units as the limits admit now, at least one. Decision.Granted is how much that was.
func (l *Limiter) AllowUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).decide(ctx, rule.TakeUpTo)
}

// Peek returns what Allow would answer, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.PeekN(ctx, key, 1)
}

// PeekN returns what AllowN would answer, and charges nothing.
func (l *Limiter) PeekN(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).oneSlot(min(n, 1)).decide(ctx, rule.Peek)
}

// Wait waits until one unit is admitted, and takes it; see WaitN.
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN waits until n units are admitted, and takes them. It returns at once with ErrNever when they never can be, and
// with a *DeadlineError when ctx would end first. Waiters on the same key are not served in FIFO order.
func (l *Limiter) WaitN(ctx context.Context, key string, n int64) error {
	return l.keyCall(key, n).wait(ctx)
}

// Reserve takes an estimate of n units now, to be settled when the true cost is known; see Reservation. Of an in-flight limit
// it takes one slot, whatever n is.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, Decision, error) {
	return l.keyCall(key, n).oneSlot(1).reserve(ctx)
}

// Charge charges n units to key without asking, beyond the quota if need be: they have been used already. There must be
// at least one. The Decision is what Peek would say afterwards, but that Allowed is always true. Charge finishes even if ctx
// has ended, as Settle does.
func (l *Limiter) Charge(ctx context.Context, key string, n int64) (Decision, error) {
	if n < 1 {
		return Decision{}, fmt.Errorf("slidegate: %w: must be 1 to %d to charge it, not %d; to give units back use Refund",
			ErrCost, int64(rule.MaxQuota), n)
	}
	return l.keyCall(key, n).decide(ctx, rule.Charge)
}

// Refund gives n units back to key, the oldest live ones first, whoever took them. What has left the window cannot be
// given back. Use Reserve and Cancel to give back just what one request took. Refund finishes even if ctx has ended, as
// Settle does. The slots of in-flight limits stay held, for the requests that hold them still run; only a limiter that has no
// other limits frees n of them, those first that were renewed least recently.
func (l *Limiter) Refund(ctx context.Context, key string, n int64) (Decision, error) {
	c := l.keyCall(key, n)
	if c.slots && slices.ContainsFunc(c.charges, func(charge store.Charge) bool { return !isSlot(&charge) }) {
		c.oneSlot(0)
	}
	return c.decide(ctx, rule.GiveBack)
}

// Reset forgets what key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.keyCall(key, 0).decide(ctx, rule.Reset)
	return err
}

// oneSlot sets the cost of in-flight limits, whose slots are not counted by what a request costs.
func (c *call) oneSlot(cost int64) *call {
	for i := range c.charges {
		if charge := &c.charges[i]; c.slots && isSlot(charge) {
			charge.Cost = cost
		}
	}
	return c
}

// keyCall is a call over the limiter's own limits, all for the same key and cost.
func (l *Limiter) keyCall(key string, n int64) *call {
	c := newCall(l, len(l.limits))
	if len(l.limits) == 0 {
		c.fail(fmt.Errorf("slidegate: %w: this limiter has none; give some to New, or use AllowLimit, For or With", ErrLimit))
	}
	for _, limit := range l.limits {
		c.add(store.Charge{Limit: limit, Key: key, Cost: n})
	}
	return c
}
