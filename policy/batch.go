package policy

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// batch is a batch of requests to a store. Its memory is reused.
type batch struct {
	requests []store.Request
	ends     []int // where the charges of each request end
	charges  []store.Charge
	answers  []rule.Answer

	penalties []penalty // of the parts in the requests
}

// maxKept is the number of charges up to which memory is kept: a larger batch is rare, and its memory would stay
// forever.
const maxKept = 4096

// reset empties the batch.
func (b *batch) reset() {
	clear(b.requests)
	clear(b.charges)
	clear(b.penalties)
	*b = batch{requests: b.requests[:0], ends: b.ends[:0], charges: b.charges[:0], answers: b.answers[:0], penalties: b.penalties[:0]}
}

// begin begins a new request, and returns its index.
func (b *batch) begin(op rule.Op) int {
	b.requests = append(b.requests, store.Request{Op: op})
	b.ends = append(b.ends, len(b.charges))
	return len(b.requests) - 1
}

// add adds limits to the last request, all for the key and cost of a part. Taking from an in-flight limit takes one
// slot.
func (b *batch) add(limits []*store.Limit, part *Part) {
	op := b.requests[len(b.requests)-1].Op
	cost := part.costOf(op)
	if part.later && op == rule.Take {
		cost = 1
	}
	for _, limit := range limits {
		charge := store.Charge{Limit: limit, Key: part.Key, Cost: cost}
		switch {
		case limit.Rule().Algorithm != rule.InFlight:
		case op == rule.GiveBack: // as Limiter.Refund does
			if slices.ContainsFunc(limits, isRate) {
				charge.Cost = 0
			}
		case cost > 0 || op == rule.Take:
			charge.Cost = 1
		}
		b.charges = append(b.charges, charge)
	}
	b.ends[len(b.ends)-1] = len(b.charges)
}

// join adds one charge to the last request, and returns its index among all charges.
func (b *batch) join(charge store.Charge) (index int) {
	b.charges = append(b.charges, charge)
	b.ends[len(b.ends)-1] = len(b.charges)
	return len(b.charges) - 1
}

// at returns the request that contains a charge, and the answer to the charge.
func (b *batch) at(index int) (*store.Request, *rule.Answer) {
	request, found := slices.BinarySearch(b.ends, index)
	if found { // a charge comes before the end of its request
		request++
	}
	return &b.requests[request], &b.answers[index]
}

// apply calls the store. Each request has its own error. The id identifies the reservation that the requests belong to,
// or is 0.
func (b *batch) apply(ctx context.Context, group string, id rule.ID, on store.Store) {
	b.address(group, id)
	if err := on.Apply(ctx, b.requests); err != nil {
		b.setError(err)
	}
}

// reserve is apply for requests that take under an id; see store.Reserve.
func (b *batch) reserve(ctx context.Context, group string, id rule.ID, on store.Store) (cancelled <-chan struct{}) {
	b.address(group, id)
	cancelled, err := store.Reserve(ctx, on, b.requests)
	if err != nil {
		b.setError(err)
	}
	return cancelled
}

// address completes the requests of the batch.
func (b *batch) address(group string, id rule.ID) {
	b.answers = slices.Grow(b.answers[:0], len(b.charges))[:len(b.charges)]
	from := 0
	for i, to := range b.ends {
		r := &b.requests[i]
		r.Group, r.ID, r.Charges, r.Answers = group, id, b.charges[from:to:to], b.answers[from:to:to]
		from = to
	}
}

// setError sets the error of a call on all requests if the store set it on none of them.
func (b *batch) setError(err error) {
	if !slices.ContainsFunc(b.requests, func(r store.Request) bool { return r.Err != nil }) {
		for i := range b.requests {
			b.requests[i].Err = err
		}
	}
}

// decision returns the decision on a request, or the zero value if it has an error.
func (b *batch) decision(request int) (d slidegate.Decision) {
	if r := &b.requests[request]; r.Err == nil {
		d = slidegate.Combine(r)
	}
	return d
}

// DecideBatch is Decide with rule.Take for many parts, in one call to the store, or one call per failure mode if
// policies have different ones. Parts that share a key are decided in order, and each independently. Verdicts must be
// as long as parts; a part whose Policy is negative is skipped, and its verdict left unchanged.
func (s *Set) DecideBatch(ctx context.Context, parts []Part, verdicts []Verdict) {
	var requests [modes]*Request
	for i := range parts {
		if parts[i].Policy < 0 {
			continue
		}
		verdicts[i] = Verdict{}
		p := s.policies[parts[i].Policy]
		rules, by, err := p.route(rule.Take, &parts[i])
		if err == nil && by == ByLimits {
			err = p.checkSlots(rule.Take, rules, SlotsNone)
		}
		switch {
		case err != nil:
			p.setMistake(&verdicts[i], err)
			continue
		case by != ByLimits:
			p.setListed(rule.Take, by, rules, &parts[i], &verdicts[i])
			continue
		case requests[p.mode] == nil:
			requests[p.mode] = s.Begin()
		}
		requests[p.mode].join(p, rules, &parts[i], i)
	}
	for mode, r := range requests {
		if r != nil {
			r.batch.apply(ctx, "", 0, s.stores[mode])
			r.batch.applyPenalties(ctx, "", s, Mode(mode))
			r.fillVerdicts(ctx, parts, verdicts)
			r.End()
		}
	}
}

// join adds the part with this index, which is decided independently.
func (r *Request) join(p *compiled, rules *rules, given *Part, index int) {
	it := target{policy: p, rules: rules, candidate: -1, from: index}
	op := given.op(rule.Take)
	it.request = r.batch.begin(op)
	r.batch.add(rules.bound, given)
	r.batch.penalize(op, &it, given, 0)
	if p.triesCandidate(rule.Take, rules, given, SlotsNone) {
		it.candidate = r.batch.begin(op)
		r.batch.add(p.candidate.bound, given)
	}
	r.joined = append(r.joined, it)
}

// fillVerdicts fills in the verdicts from the store's answers to a batch.
func (r *Request) fillVerdicts(ctx context.Context, parts []Part, verdicts []Verdict) {
	for i := range r.joined {
		it := &r.joined[i]
		v, part := &verdicts[it.from], &parts[it.from]
		live := &r.batch.requests[it.request]
		if live.Err == nil {
			v.Decision, v.Penalty = slidegate.Combine(live), r.batch.left(it.request)
		}
		it.policy.complete(ctx, rule.Take, it.rules, part, v, live.Err)
		if v.Err == nil {
			r.tryCandidate(rule.Take, it, part.Key, v.Decision.Allowed)
		}
	}
}
