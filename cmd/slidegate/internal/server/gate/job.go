package gate

import (
	"context"
	"fmt"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// job is a batch of requests on its way to a store. Its memory is used again.
type job struct {
	requests []store.Request
	ends     []int // where the charges of each request end
	charges  []store.Charge
	answers  []rule.Answer
	parts    []part // for whoever makes the batch: whom the requests are for
}

func (g *Gate) newJob() *job { return g.jobs.Get().(*job) }

// end gives the memory back, without the keys in it.
func (g *Gate) end(j *job) {
	clear(j.requests)
	clear(j.charges)
	clear(j.parts)
	*j = job{
		requests: j.requests[:0], ends: j.ends[:0], charges: j.charges[:0], answers: j.answers[:0], parts: j.parts[:0],
	}
	if cap(j.charges) <= 4096 { // a batch that large is rare, and its memory would stay for ever
		g.jobs.Put(j)
	}
}

// add joins limits to the last request, all for the same key and cost.
func (j *job) add(limits []*store.Limit, key string, cost int64) {
	for _, limit := range limits {
		j.charges = append(j.charges, store.Charge{Limit: limit, Key: key, Cost: cost})
	}
	j.ends[len(j.ends)-1] = len(j.charges)
}

// begin begins a new request, and returns its place.
func (j *job) begin(op rule.Op) int {
	j.requests = append(j.requests, store.Request{Op: op})
	j.ends = append(j.ends, len(j.charges))
	return len(j.requests) - 1
}

// apply has the store decide. Each request has its own error.
func (j *job) apply(ctx context.Context, store store.Store) {
	if len(j.requests) == 0 {
		return
	}
	j.answers = slices.Grow(j.answers[:0], len(j.charges))[:len(j.charges)]
	from := 0
	for i, to := range j.ends {
		j.requests[i].Charges = j.charges[from:to:to]
		j.requests[i].Answers = j.answers[from:to:to]
		from = to
	}
	_ = store.Apply(ctx, j.requests) // each request has its own
}

// together asks the limits of one policy and its candidate in one call to the store: it sees what they see, and has no
// part in the answer.
func (g *Gate) together(ctx context.Context, p *policy, r *rules, op rule.Op, ask *Ask) (slidegate.Decision, error) {
	j := g.newJob()
	defer g.end(j)
	j.begin(op)
	j.add(r.bound, ask.Key, ask.Cost)
	j.begin(op)
	j.add(p.candidate, ask.Key, ask.Cost)
	j.apply(ctx, p.store)
	live := &j.requests[0]
	if live.Err != nil {
		return slidegate.Decision{}, live.Err
	}
	d := slidegate.Combine(live)
	if op == rule.Take || op == rule.TakeUpTo {
		p.countCandidate(ask.Key, &j.requests[1], d.Allowed)
	}
	return d, nil
}

// countCandidate reports what a candidate said. Where the store did not answer, it said nothing.
func (p *policy) countCandidate(key string, said *store.Request, live bool) {
	if said.Err != nil || said.Answers[0].Flags.Fallback() {
		return
	}
	_, allowed := rule.Deciding(said.Answers)
	count := candidateAgreedAdmit
	switch {
	case !allowed && !live:
		count = candidateAgreedRefuse
	case !allowed:
		count = candidateStricter
	case !live:
		count = candidateLooser
	}
	p.tally.add(key, count)
}

// checkCost refuses what no limit takes.
func checkCost(cost int64) error {
	if uint64(cost) > rule.MaxQuota {
		return fmt.Errorf("gate: %w: must be 0 to %d, not %d; to give units back use Refund, Settle or Cancel",
			slidegate.ErrCost, int64(rule.MaxQuota), cost)
	}
	return nil
}
