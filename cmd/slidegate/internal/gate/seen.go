package gate

import (
	"context"
	"errors"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
)

// InForce returns the names, modes and limits of the policies, and how many requests hold slots or units of them or wait in line, in the order of the file.
func (g *Gate) InForce() (list []seen.Policy) {
	for _, p := range g.current.Load().order {
		one := seen.Policy{Name: p.Name, Shadow: p.Shadow, Varies: len(p.RequestPlans()) > 0, HoldsOut: p.held.Load(), Waiting: p.line.Waiting.Load()}
		for _, limit := range p.Limits {
			one.Limits = append(one.Limits, limit.String())
		}
		list = append(list, one)
	}
	return list
}

// errUnknown says that the store did not answer.
var errUnknown = errors.New("gate: the store did not answer")

// Share returns the largest share of a limit of a key that is used now, and that limit; nil if no limit decides about the key, such as one that
// a ruling blocks. Plan is the name of the one by which the key was decided. The error means that it is not known.
func (g *Gate) Share(ctx context.Context, name, key, plan string) (share float64, limit *slidegate.Limit, err error) {
	d, err := g.Do(ctx, Peek, Request{Policy: name, Key: key, Plan: plan})
	switch {
	case errors.Is(err, ErrPolicy) || errors.Is(err, ErrKey):
		return 0, nil, nil // a reload has removed it
	case err != nil:
		return 0, nil, err
	case d.Flags&answering.Fallbacks != 0:
		return 0, nil, errUnknown
	case d.By != policy.ByLimits || len(d.Limits) == 0:
		return 0, nil, nil
	case len(d.Answers) == 0:
		return engine.Share(&d.Limits[0], d.Remaining), &d.Limits[0], nil
	}
	for i := range d.Answers {
		if s := engine.Share(&d.Limits[i], d.Answers[i].Remaining); i == 0 || s > share {
			share, limit = s, &d.Limits[i]
		}
	}
	return share, limit, nil
}

// Sums has the counts of a Latency at one time, for Since.
type Sums [len(bounds) + 1]int64

// Sums returns how many decisions were recorded, over all listeners.
func (l *Latency) Sums() (sums Sums) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.of {
		for i := range sums {
			if h != nil {
				sums[i] += h.counts.Sum(i)
			}
		}
	}
	return sums
}

// Since returns a quantile of the decisions that were recorded between two times: within the bucket that has it, as if all decisions
// in it were spread evenly. It returns 0 if there were none.
func (s *Sums) Since(before *Sums, quantile float64) time.Duration {
	total := int64(0)
	for i := range s {
		total += s[i] - before[i]
	}
	rank := quantile * float64(total)
	for i := range bounds {
		n := float64(s[i] - before[i])
		if n > 0 && rank <= n {
			low := time.Duration(0)
			if i > 0 {
				low = bounds[i-1]
			}
			return low + time.Duration(rank/n*float64(bounds[i]-low))
		}
		rank -= n
	}
	if total == 0 {
		return 0
	}
	return bounds[len(bounds)-1]
}
