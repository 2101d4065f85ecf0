package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/layer/lease"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/workers"
)

// The limits that all processes request: some callers the narrow one alone, some the narrow and the wide one together,
// and some a limit of which they return some units. Parts of the windows end every quarter or half of a second, and a
// lease lives for the rest of one.
var (
	narrow = slidegate.Limit{Name: "narrow", Quota: 1_000, Window: time.Second, Segments: 4, Overlap: slidegate.OverlapWhole, Lease: true}
	loose  = slidegate.Limit{Name: "loose", Quota: 90, Window: time.Second, Segments: 4, Overlap: slidegate.OverlapWhole, Lease: true}
	wide   = slidegate.Limit{Name: "wide", Quota: 150, Window: 1_500 * time.Millisecond, Segments: 3, Overlap: slidegate.OverlapWhole, Lease: true}
)

const (
	callers = 16                     // per process
	both    = 4                      // of them request two limits
	fickle  = 3                      // of them return units
	patient = 400 * time.Millisecond // how long one waits for an answer
)

// job is what a process is started for.
type job struct {
	Place   string // of the server; see openStore
	Journal string // the file for its records
}

// order is what the process then has to do.
type order struct {
	Seed  uint64
	Until int64 // when to end, in nanoseconds since the epoch
}

// outcome is what a process did.
type outcome struct {
	Admitted map[string]int64 // units per limit, as the callers got them
	Failed   int64            // requests without an answer
	Stats    lease.Stats      // after everything was returned
}

// TestWorker is what the other processes run.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(text string) (func([]byte) (any, error), error) {
		var j job
		if err := json.Unmarshal([]byte(text), &j); err != nil {
			return nil, err
		}
		inner, err := openStore(t, j.Place, nil)
		if err != nil {
			return nil, err
		}
		journal, err := openJournal(j.Journal)
		if err != nil {
			return nil, err
		}
		return func(text []byte) (any, error) {
			var o order
			if err := json.Unmarshal(text, &o); err != nil {
				return nil, err
			}
			done, err := call(inner, journal, o)
			if failed, ok := journal.err.Load().(error); ok {
				err = errors.Join(err, failed)
			}
			return done, err
		}, nil
	})
}

// crowd is the callers of a process.
type crowd struct {
	store               *lease.Store
	narrow, wide, loose *store.Limit
	until               time.Time
	calm                atomic.Bool // they send requests less often

	admittedNarrow, admittedWide, admittedLoose, failed atomic.Int64
}

// call sends requests from many callers until the order's end, and then returns units.
func call(inner store.Store, j *journal, o order) (done outcome, err error) {
	c := &crowd{until: time.Unix(0, o.Until)}
	if c.narrow, err = bind(narrow); err != nil {
		return done, err
	}
	if c.wide, err = bind(wide); err != nil {
		return done, err
	}
	if c.loose, err = bind(loose); err != nil {
		return done, err
	}
	if c.store, err = j.watch(inner); err != nil {
		return done, err
	}
	var wait sync.WaitGroup
	wait.Go(func() { c.changePace(rand.New(rand.NewPCG(o.Seed, callers))) })
	for i := range callers {
		wait.Go(func() { c.askUntilEnd(rand.New(rand.NewPCG(o.Seed, uint64(i))), i) })
	}
	wait.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	err = c.store.Close(ctx)
	return outcome{
		Admitted: map[string]int64{
			narrow.Name: c.admittedNarrow.Load(), wide.Name: c.admittedWide.Load(), loose.Name: c.admittedLoose.Load(),
		},
		Failed: c.failed.Load(), Stats: c.store.Stats(),
	}, err
}

// changePace makes the callers calm and busy in turn. When they are calm, leases are left over at the end of a part;
// when they are busy, they request more than there is.
func (c *crowd) changePace(random *rand.Rand) {
	for time.Now().Before(c.until) {
		<-time.After(time.Duration(50+random.IntN(300)) * time.Millisecond)
		c.calm.Store(!c.calm.Load())
	}
}

func (c *crowd) askUntilEnd(random *rand.Rand, caller int) {
	for time.Now().Before(c.until) {
		pause := 12
		if c.calm.Load() {
			pause = 120
		}
		<-time.After(time.Duration(random.IntN(pause*1_000)) * time.Microsecond)
		cost := 1 + random.Int64N(3)
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		switch {
		case caller < both:
			c.askBoth(ctx, cost)
		case caller < both+fickle:
			c.askAndCancel(ctx, cost, random)
		default:
			c.ask(ctx, c.narrow, cost, &c.admittedNarrow)
		}
		cancel()
	}
}

// ask takes units of one limit, and returns when they were charged, or false if it got none.
func (c *crowd) ask(ctx context.Context, limit *store.Limit, cost int64, admitted *atomic.Int64) (at rule.Micros, ok bool) {
	allowed, _, _, _, _, at, err := c.store.TakeSingle(ctx, limit, key, cost)
	switch {
	case err != nil:
		c.failed.Add(1)
	case allowed:
		admitted.Add(cost)
	}
	return at, err == nil && allowed
}

// askAndCancel takes units and returns one out of three a little later, where they were charged.
func (c *crowd) askAndCancel(ctx context.Context, cost int64, random *rand.Rand) {
	at, ok := c.ask(ctx, c.loose, cost, &c.admittedLoose)
	if !ok || random.IntN(3) > 0 {
		return
	}
	<-time.After(time.Duration(random.IntN(50)) * time.Millisecond)
	charges := []store.Charge{{Limit: c.loose, Key: key, Cost: cost, At: at}}
	r := store.Request{Op: rule.GiveBack, ID: rule.ID(random.Uint64() | 1), Charges: charges, Answers: make([]rule.Answer, 1)}
	if c.store.Apply(ctx, []store.Request{r}) != nil {
		c.failed.Add(1)
	}
}

func (c *crowd) askBoth(ctx context.Context, cost int64) {
	answers := make([]rule.Answer, 2)
	charges := []store.Charge{{Limit: c.narrow, Key: key, Cost: cost}, {Limit: c.wide, Key: key, Cost: 1}}
	err := c.store.Apply(ctx, []store.Request{{Op: rule.Take, Charges: charges, Answers: answers}})
	switch {
	case err != nil:
		c.failed.Add(1)
	case answers[0].Allowed && answers[1].Allowed:
		c.admittedNarrow.Add(cost)
		c.admittedWide.Add(1)
	}
}
