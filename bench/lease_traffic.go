package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// leaseProcesses is the number of processes that share a limit: each has its own layers over the same server.
const leaseProcesses = 8

// callersEach is how many callers each process has.
const callersEach = 4

// arrivals returns the times of one caller's requests, one after the other.
type arrivals func() time.Time

// evenly returns arrivals at random times, perSecond on average.
func evenly(random *rand.Rand, start time.Time, perSecond float64) arrivals {
	return func() time.Time {
		start = start.Add(time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)))
		return start
	}
}

// burstLength is how long a burst takes.
const burstLength = 20 * time.Millisecond

// inBursts returns arrivals in bursts, one per period, perSecond on average.
func inBursts(random *rand.Rand, start time.Time, period time.Duration, perSecond float64) arrivals {
	var burst []time.Time
	return func() time.Time {
		for len(burst) == 0 {
			for range int(perSecond*period.Seconds() + random.Float64()) {
				burst = append(burst, start.Add(time.Duration(random.Int64N(int64(burstLength)))))
			}
			slices.SortFunc(burst, time.Time.Compare)
			start = start.Add(period)
		}
		next := burst[0]
		burst = burst[1:]
		return next
	}
}

// asker sends one request to a limiter.
type asker func(ctx context.Context, key string) (slidegate.Decision, error)

// traffic is a load that is sent both to the processes and to one exact store in memory, at the same time.
type traffic struct {
	keys     keys // in the order in which they are asked for
	exact    asker
	leased   []asker // one for each process
	arrivals func(random *rand.Rand, start time.Time) arrivals
}

// trafficSample holds the outcomes of the requests.
type trafficSample struct {
	asked, exact, leased, fromBlocks int64
}

// share returns what was admitted, as a share of what one exact store admitted.
func (s trafficSample) share() float64 { return float64(s.leased) / float64(max(s.exact, 1)) }

// run runs all callers of all processes until the time is over.
func (f *traffic) run(ctx context.Context, length time.Duration) (trafficSample, error) {
	var asked, exact, leased, fromBlocks atomic.Int64
	start := time.Now()
	crew := newCrew(len(f.leased) * callersEach)
	err := crew.run(func(i int, _ *caller) error {
		next := f.arrivals(rand.New(rand.NewPCG(uint64(i), 4)), start)
		for at := i * f.keys.n / len(crew.callers); ; at++ {
			when := next()
			if when.Sub(start) > length {
				return nil
			}
			time.Sleep(time.Until(when))
			key := f.keys.at(at % f.keys.n)
			asked.Add(1)
			d, err := f.exact(ctx, key)
			if err != nil {
				return err
			}
			if d.Allowed {
				exact.Add(1)
			}
			if d, err = f.leased[i%len(f.leased)](ctx, key); err != nil {
				return err
			}
			if d.Allowed {
				leased.Add(1)
				if leasedAnswer(&d) {
					fromBlocks.Add(1)
				}
			}
		}
	})
	return trafficSample{asked.Load(), exact.Load(), leased.Load(), fromBlocks.Load()}, err
}

// leasedAnswer reports whether a decision was made from a lease.
func leasedAnswer(d *slidegate.Decision) bool {
	return d.Flags.Leased() && !slices.ContainsFunc(d.Answers, func(a slidegate.Answer) bool { return !a.Flags.Leased() })
}

// exactStore returns the store that leases are compared with.
func exactStore() (*memstore.Store, error) { return memstore.New(memstore.Options{}) }
