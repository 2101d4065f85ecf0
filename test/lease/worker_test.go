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
	"github.com/slidegate/slidegate/internal/layer/lease"
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
	callers          = 16                     // per process
	pairCallers      = 4                      // callers that request two limits
	cancelingCallers = 3                      // callers that return units
	callTimeout      = 400 * time.Millisecond // how long a caller waits for an answer
)

// job is the configuration of a process.
type job struct {
	Place   string // of the server; see openStore
	Journal string // the file for its records
}

// order is the work of a process.
type order struct {
	Seed  uint64
	Until int64 // when to end, in nanoseconds since the epoch
}

// outcome is the result of a process.
type outcome struct {
	Admitted map[string]int64 // units per limit, as the callers got them
	Failed   int64            // requests without an answer
	Stats    lease.Stats      // after everything was returned
}

// TestWorker is the main function of the other processes.
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

// callerGroup holds the callers of a process.
type callerGroup struct {
	store               *lease.Store
	narrow, wide, loose *store.Limit
	until               time.Time
	slow                atomic.Bool // they send requests less often

	admittedNarrow, admittedWide, admittedLoose, failed atomic.Int64
}

// call sends requests from many callers until the order's end, and then returns units.
func call(inner store.Store, j *journal, o order) (done outcome, err error) {
	c := &callerGroup{until: time.Unix(0, o.Until)}
	if c.narrow, err = bind(narrow); err != nil {
		return done, err
	}
	if c.wide, err = bind(wide); err != nil {
		return done, err
	}
	if c.loose, err = bind(loose); err != nil {
		return done, err
	}
	if c.store, err = j.openLeases(inner); err != nil {
		return done, err
	}
	var wait sync.WaitGroup
	wait.Go(func() { c.alternatePace(rand.New(rand.NewPCG(o.Seed, callers))) })
	for i := range callers {
		wait.Go(func() { c.sendUntilEnd(rand.New(rand.NewPCG(o.Seed, uint64(i))), i) })
	}
	wait.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = c.store.Close(ctx)
	return outcome{
		Admitted: map[string]int64{
			narrow.Name: c.admittedNarrow.Load(), wide.Name: c.admittedWide.Load(), loose.Name: c.admittedLoose.Load(),
		},
		Failed: c.failed.Load(), Stats: c.store.Stats(),
	}, err
}

// alternatePace makes the callers slow and fast in turn. When they are slow, leases are left over at the end of a part;
// when they are fast, they request more than the quota.
func (c *callerGroup) alternatePace(random *rand.Rand) {
	for time.Now().Before(c.until) {
		<-time.After(time.Duration(50+random.IntN(300)) * time.Millisecond)
		c.slow.Store(!c.slow.Load())
	}
}

func (c *callerGroup) sendUntilEnd(random *rand.Rand, caller int) {
	for time.Now().Before(c.until) {
		pause := 12
		if c.slow.Load() {
			pause = 120
		}
		<-time.After(time.Duration(random.IntN(pause*1_000)) * time.Microsecond)
		cost := 1 + random.Int64N(3)
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		switch {
		case caller < pairCallers:
			c.takeBoth(ctx, cost)
		case caller < pairCallers+cancelingCallers:
			c.takeAndCancel(ctx, cost, random)
		default:
			c.take(ctx, c.narrow, cost, &c.admittedNarrow)
		}
		cancel()
	}
}

// take takes units of one limit, and returns when they were charged, or false if it got none.
func (c *callerGroup) take(ctx context.Context, limit *store.Limit, cost int64, admitted *atomic.Int64) (at rule.Micros, ok bool) {
	allowed, _, _, _, _, at, err := c.store.TakeSingle(ctx, limit, key, cost)
	switch {
	case err != nil:
		c.failed.Add(1)
	case allowed:
		admitted.Add(cost)
	}
	return at, err == nil && allowed
}

// takeAndCancel takes units, and a little later returns them in one of three cases, to the part in which they were charged.
func (c *callerGroup) takeAndCancel(ctx context.Context, cost int64, random *rand.Rand) {
	at, ok := c.take(ctx, c.loose, cost, &c.admittedLoose)
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

func (c *callerGroup) takeBoth(ctx context.Context, cost int64) {
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
