package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// leaseProcesses is the number of processes that share a limit: each has its own layers over the same server.
const leaseProcesses = 8

// callersEach is how many callers each process has.
const callersEach = 4

// arrivals returns the time of a caller's next request each time it is called.
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

// decideFunc decides one request for a key.
type decideFunc func(ctx context.Context, key string) (slidegate.Decision, error)

// traffic is a load that is sent both to the processes and to one exact store in memory, at the same time.
type traffic struct {
	keys     keys // the keys of the requests, in order
	exact    decideFunc
	leased   []decideFunc // one for each process
	arrivals func(random *rand.Rand, start time.Time) arrivals
}

// trafficSample holds the outcomes of the requests.
type trafficSample struct {
	requests, exact, leased, fromLeases int64
}

// share returns what leases admitted, as a share of what one exact store admitted.
func (s trafficSample) share() float64 { return float64(s.leased) / float64(max(s.exact, 1)) }

// run runs all callers of all processes until the time is over.
func (f *traffic) run(ctx context.Context, length time.Duration) (trafficSample, error) {
	var requests, exact, leased, fromLeases atomic.Int64
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
			requests.Add(1)
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
				if fromLease(&d) {
					fromLeases.Add(1)
				}
			}
		}
	})
	return trafficSample{requests.Load(), exact.Load(), leased.Load(), fromLeases.Load()}, err
}

// fromLease reports whether a request was decided from a lease.
func fromLease(d *slidegate.Decision) bool {
	return d.Flags&rule.Leased != 0 && !slices.ContainsFunc(d.Answers, func(a rule.Answer) bool { return a.Flags&rule.Leased == 0 })
}

// exactStore returns the store that leases are compared with.
func exactStore() (*memstore.Store, error) { return memstore.New(memstore.Options{}) }
