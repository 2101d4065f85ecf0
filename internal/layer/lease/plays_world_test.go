package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// world is one play: several processes over one store, in a synctest bubble.
type world struct {
	t    testing.TB
	seed uint64
	rand *rand.Rand // locked, because goroutines share it
	judge
	clock       *storetest.Clock
	store       *storetest.Reference
	began       time.Time
	ahead       time.Duration // of the store's clock, relative to the bubble's
	limits      []playLimit
	faults      faults
	disturbance disturbance
	ids         atomic.Uint64
	over        atomic.Bool
	requests    atomic.Int64
	late        sync.WaitGroup
}

// faults are the likelihoods of failures on the way to the store, per thousand.
type faults struct {
	slow, lost, never, dies int
	usual                   time.Duration // how long a message takes at most, if it is not slow
}

// longestPlayed is how long after its time a lease, or a late request, can still have an effect.
const longestPlayed = rule.Micros(5_000_000)

// disturbance is an event beyond the promises of leases; see judge.
type disturbance int

const (
	nothing disturbance = iota
	forced
	plans
	resets
	refunds
)

func (u disturbance) String() string {
	return [...]string{"nothing else", "forced charges", "other quotas", "resets", "refunds"}[u]
}

// process is a process that shares the store with others. Its clock is slightly wrong.
type process struct {
	w     *world
	lease *lease.Store
	ppm   int64 // how fast its clock is, in parts per million
	epoch time.Duration
	dead  atomic.Bool
	value atomic.Int64 // the value of the limits it uses
}

func (w *world) newProcess() *process {
	p := &process{w: w, ppm: pick(w.rand, 0, 0, -1000, 1000, w.rand.Int64N(2001)-1000), epoch: time.Duration(w.rand.Int64N(1e15))}
	p.value.Store(w.rand.Int64N(8))
	s := lease.New(wire{p}, lease.Options{
		Timeout: pick(w.rand, 0, 0, 100*time.Millisecond),
		Now:     p.now,
		Spent:   func(s lease.Spend) { w.spent(p, s) },
	})
	p.lease = s
	return p
}

func (p *process) now() time.Duration { return p.at(time.Now()) }

// at returns the process's clock at a time.
func (p *process) at(t time.Time) time.Duration {
	passed := t.Sub(p.w.began)
	return p.epoch + passed + passed/1000*time.Duration(p.ppm)/1000
}

// storeNow returns the store's clock.
func (w *world) storeNow() rule.Micros {
	return rule.Micros(time.Now().Add(w.ahead).UnixMicro())
}

// asCaller marks the context of a request made by a caller, and not by the layer itself.
type asCaller struct{}

var errLost = errors.New("lost")

// wire is the connection of a process to the store.
type wire struct{ p *process }

func (l wire) Check(*store.Limit) error { return nil }
func (l wire) Traits() store.Traits     { return withRoundTrips(l.p.w.store.Traits()) }

func (l wire) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	var answers [1]rule.Answer
	err = l.Apply(ctx, []store.Request{{
		Op: rule.Take, Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: answers[:],
	}})
	a := answers[0]
	return a.Allowed, a.Flags, a.Remaining, answering.After(&a), a.ResetAfter, a.At, err
}

// fate is what happens to a batch on its way.
type fate struct {
	never bool // it does not arrive
	lost  bool // the answer does not arrive
	late  bool // the answer arrives when its caller no longer waits
}

func (f fate) unanswered() bool { return f.lost || f.late }

// Apply delivers a batch to the store and returns the answers, both after a delay, or loses either.
func (l wire) Apply(ctx context.Context, batch []store.Request) error {
	w := l.p.w
	there, back := w.delay(), w.delay()
	deadline, limited := ctx.Deadline()
	f := fate{
		never: w.chance(w.faults.never) || l.p.dead.Load() || ctx.Err() != nil, lost: w.chance(w.faults.lost),
		late: limited && time.Until(deadline) <= there+back,
	}
	byCaller := ctx.Value(asCaller{}) != nil
	l.send(batch, byCaller, f)
	if f.late {
		if !f.never {
			copied := clone(batch)
			w.late.Go(func() {
				testkit.Delay(there)
				l.decide(copied, byCaller, f)
			})
		}
		<-ctx.Done()
		return fail(batch, ctx.Err())
	}
	testkit.Delay(there)
	if !f.never {
		l.decide(batch, byCaller, f)
	}
	testkit.Delay(back)
	if f.never || f.lost || l.p.dead.Load() {
		return fail(batch, errLost)
	}
	return nil
}

// send reports to the judge what leaves the process.
func (l wire) send(batch []store.Request, byCaller bool, f fate) {
	w := l.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range batch {
		if !byCaller && batch[i].Op == rule.GiveBack {
			w.returning(l.p, &batch[i], f)
		}
	}
}

// decide runs the store.
func (l wire) decide(batch []store.Request, byCaller bool, f fate) {
	w := l.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.Set(w.storeNow())
	for i := range batch {
		r := &batch[i]
		if err := w.store.Apply(context.Background(), batch[i:i+1]); err != nil {
			w.addViolation("the store failed: %v", err)
			return
		}
		if byCaller {
			w.decided(l.p, r, f)
		} else {
			w.decidedForLayer(l.p, r, f)
		}
	}
}

// delay returns how long a message takes.
func (w *world) delay() time.Duration {
	if w.chance(w.faults.slow) {
		return time.Duration(w.rand.Int64N(int64(300 * time.Millisecond)))
	}
	return time.Duration(w.rand.Int64N(int64(w.faults.usual)))
}

func (w *world) chance(inThousand int) bool { return w.rand.IntN(1000) < inThousand }

func fail(batch []store.Request, err error) error {
	for i := range batch {
		clear(batch[i].Answers)
		batch[i].Err = err
	}
	return err
}

func clone(batch []store.Request) []store.Request {
	copied := make([]store.Request, len(batch))
	for i, r := range batch {
		r.Charges = append([]store.Charge(nil), r.Charges...)
		r.Answers = make([]rule.Answer, len(r.Charges))
		copied[i] = r
	}
	return copied
}

// lockedSource lets goroutines share a source of random numbers.
type lockedSource struct {
	mu     sync.Mutex
	source rand.Source
}

func (l *lockedSource) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source.Uint64()
}
