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
	given     []Limit // the limits as they were given
	once      *string // the ID of calls that count once; nil if the limiter has none
	limits    []*store.Limit
	bound     *boundLimits
}

// New returns a limiter that applies all the limits to every key: all of them admit and are charged, or none is. Without
// limits, it is for limits given with each call, in For and With, and the methods that take only a key return an error.
//
// New returns an error if a limit is invalid, or if the store cannot keep it exactly. It also returns an error if a limit
// without a name would share the counts of another limiter's limit; see Limit.Name.
func New(store store.Store, limits ...Limit) (*Limiter, error) {
	if isNil(store) {
		return nil, errNoStore()
	}
	store, namespace := namespaceOf(store)
	l, err := newLimiter(store, limits, newBoundLimits(namespace, store))
	if err == nil {
		err = l.declare()
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// MustNew is like New but panics if New would return an error. It is for limits known to be valid.
func MustNew(store store.Store, limits ...Limit) *Limiter {
	l, err := New(store, limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// Namespace returns a store for limiters that share their counts only with limiters of the same namespace, so that several
// programs, or parts of one, can use a store:
//
//	limiter, err := slidegate.New(slidegate.Namespace(store, "shop"), slidegate.PerMinute(100))
func Namespace(on store.Store, name string) store.Store { return &namespaced{on, name} }

type namespaced struct {
	store.Store
	name string
}

func (n *namespaced) Unwrap() store.Store { return n.Store }

// namespaceOf returns the namespace of a store, and the store without it.
func namespaceOf(on store.Store) (store.Store, string) {
	if within, ok := on.(*namespaced); ok {
		return within.Store, within.name
	}
	if below, ok := store.As[*namespaced](on); ok {
		return on, below.name
	}
	return on, ""
}

// isNil reports whether a store is nil, or a nil pointer of a store's type.
func isNil(on store.Store) bool {
	on, _ = namespaceOf(on)
	value := reflect.ValueOf(on)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}

// errNoContext is returned instead of the panic that calling a method of a nil context would be.
var errNoContext = errors.New("slidegate: ctx: must not be nil; use context.Background if there is no other")

func errNoStore() error {
	return errors.New("slidegate: store: must not be nil; memstore.NewDefault returns one that needs no configuration")
}

func newLimiter(on store.Store, limits []Limit, bound *boundLimits) (*Limiter, error) {
	limits = slices.Clone(limits) // the caller may reuse the slice
	l := &Limiter{store: on, traits: on.Traits(), given: limits, bound: bound}
	for _, limit := range limits {
		b, err := bound.bind(limit)
		if err != nil {
			return nil, err
		}
		for _, other := range l.limits {
			if other.Prefix() == b.Prefix() {
				return nil, fmt.Errorf("slidegate: %w: %q and %q; give them different names", ErrConflict, unbind(other), unbind(b))
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
// same name and shape shares its counts with this limiter's limit, so a key that changes plans, from 60 to 600 per minute for
// example, keeps what it has used.
func (l *Limiter) With(limits ...Limit) (*Limiter, error) {
	return l.made(newLimiter(l.store, limits, l.bound))
}

// made gives a limiter that was made from l the ID of l.
func (l *Limiter) made(from *Limiter, err error) (*Limiter, error) {
	if err == nil && l.once != nil {
		from = from.Once(*l.once)
	}
	return from, err
}

// declare registers the limits with the store; see adapter.Declare.
func (l *Limiter) declare() error {
	if declarer, ok := store.As[store.Declarer](l.store); ok {
		return declarer.Declare(l.limits...)
	}
	return nil
}

// over returns a limiter with the same limits and namespace over another store; see adapter.Over.
func (l *Limiter) over(wrap func(store.Store) (store.Store, error)) (*Limiter, error) {
	on, err := wrap(l.store)
	if err != nil {
		return nil, err
	}
	if isNil(on) {
		return nil, errNoStore()
	}
	return l.made(newLimiter(on, l.given, newBoundLimits(l.bound.namespace, on)))
}

// Limits returns the limits that apply to every key, as they were given.
func (l *Limiter) Limits() []Limit { return slices.Clone(l.given) }

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

// AllowUpTo takes as much of n units as the limits admit now, at least one. Decision.Granted is how many units it took.
func (l *Limiter) AllowUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).decide(ctx, rule.TakeUpTo)
}

// Peek returns what AllowN would return, and charges nothing.
func (l *Limiter) Peek(ctx context.Context, key string, n int64) (Decision, error) {
	return l.keyCall(key, n).oneSlot(min(n, 1)).decide(ctx, rule.Peek)
}

// Wait waits until n units are admitted, and takes them. It returns immediately with ErrNever if they can never be
// admitted, and with a *DeadlineError if ctx would end first. In one process, callers that wait for the same limits and key are served in
// the order in which they came, also large costs; those with larger limits go first, without starving the others. An error of the store is
// that of the first in line.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
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
		c.fail(fmt.Errorf("slidegate: %w: this limiter has no limits; pass some to New, or use For or With", ErrLimit))
	}
	for _, limit := range l.limits {
		c.add(store.Charge{Limit: limit, Key: key, Cost: n})
	}
	return c
}
