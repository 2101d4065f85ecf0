package policy

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Request is a request that faces several policies, or that is settled afterwards: Add its parts, Decide, and End it. All
// policies admit and all are charged, or none is. Those in the shadow and the candidates are asked in the same call to the
// store, each by itself, so that what they refuse does not keep the others from charging. Begin makes it; it is not safe for
// concurrent use.
type Request struct {
	// Group names the group of the request's charges; see slidegate.Claims.InGroup.
	Group string
	// Hold keeps what is taken, for Settle.
	Hold bool
	// Tell makes Tried return the verdicts of shadows and candidates.
	Tell bool

	set    *Set
	parts  []part
	joined []asked // in place of parts, in a batch of parts that are decided each by itself
	batch  batch
	tried  []Verdict
	asked  bool // the shadows and candidates were: where a client waits, it decides several times
	held   *slidegate.Limiter
	away   bool // held is over a store with round trips
}

// part is a Part on its way.
type part struct {
	Part
	asked
	by  By
	err error // of an invalid plan
}

// decides reports whether the limits of the part have a say in the decision.
func (it *part) decides() bool { return it.by == ByLimits && !it.policy.shadow }

// asked is which rules a part faces, and where the batch asks them.
type asked struct {
	policy    *compiled
	rules     *rules
	request   int // the request of the batch that asks it, or -1
	candidate int // and the one that asks its candidate, or -1
	from      int // where its answers are among those of that request, or its place in a batch
}

// Begin returns a request without parts.
func (s *Set) Begin() *Request {
	r := s.requests.Get().(*Request)
	r.set = s
	return r
}

// End gives the request's memory back, without the keys in it. Neither the request nor what Tried returned may be used
// afterwards.
func (r *Request) End() {
	clear(r.parts)
	clear(r.joined)
	clear(r.tried)
	r.batch.reset()
	s := r.set
	*r = Request{parts: r.parts[:0], joined: r.joined[:0], tried: r.tried[:0], batch: r.batch}
	if cap(r.batch.charges) <= maxKept {
		s.requests.Put(r)
	}
}

// Add joins a part to the request.
func (r *Request) Add(given Part) {
	r.parts = append(r.parts, part{Part: given, asked: asked{policy: r.set.policies[given.Policy]}})
}

// CountsDenied reports whether one of the limits counts refusals, so that a waiting client must peek before it takes.
func (r *Request) CountsDenied() bool {
	for i := range r.parts {
		it := &r.parts[i]
		it.rules, it.by, it.err = it.policy.route(&it.Part)
		if it.err == nil && it.by == ByLimits && slices.ContainsFunc(it.rules.limits, func(l slidegate.Limit) bool { return l.CountDenied }) {
			return true
		}
	}
	return false
}

// Decide decides the request and fills v, which must be the zero value; the ops are those of Ask. A client that waits calls
// it again. Where policies with different failure modes decide together, the strictest mode holds. If all parts are listed
// or in the shadow, v is about the one among these that says most.
func (r *Request) Decide(ctx context.Context, op rule.Op, v *Verdict) {
	for i := range r.parts {
		it := &r.parts[i]
		p := it.policy
		it.request, it.candidate, it.from = -1, -1, 0
		it.rules, it.by, it.err = p.route(&it.Part)
		switch {
		case p.shadow:
		case it.err != nil:
			p.mistake(v, it.err)
			v.Policy = r.parts[0].policy.name
			return
		case it.by == ByDenyList:
			p.listed(op, it.by, &it.Part, v)
			return
		}
	}
	r.batch.reset()
	clear(r.tried)
	r.tried = r.tried[:0]
	if r.decideAlone(ctx, op, v) {
		return
	}
	mode := r.askParts(op)
	if len(r.batch.requests) > 0 {
		if err := r.set.checkCharges(r.batch.ends[0], mode); err != nil {
			r.parts[0].policy.mistake(v, err)
			return
		}
		r.batch.apply(ctx, r.Group, r.set.stores[mode])
	}
	r.judge(ctx, op, mode, v)
	r.asked = r.asked || op != rule.Peek
}

// decideAlone takes the shortest way if there is one part and nothing else.
func (r *Request) decideAlone(ctx context.Context, op rule.Op, v *Verdict) bool {
	if len(r.parts) != 1 || r.Hold || r.Group != "" {
		return false
	}
	it := &r.parts[0]
	if p := it.policy; p.shadow || it.err != nil || it.by != ByLimits || p.tries(op, it.rules, &it.Part) && !r.asked {
		return false
	}
	it.policy.askAlone(ctx, op, it.rules, &it.Part, v)
	return true
}

// askParts makes the requests to the store: first the one of the policies that decide, then one for each in the shadow, then
// the candidates. It returns the failure mode of those that decide.
func (r *Request) askParts(op rule.Op) (mode Mode) {
	decides := -1
	for i := range r.parts {
		it := &r.parts[i]
		if !it.decides() {
			continue
		}
		if decides < 0 {
			decides = r.batch.begin(op)
		}
		it.request, it.from = decides, len(r.batch.charges)
		r.batch.add(it.rules.bound, it.Key, it.cost())
		mode = max(mode, it.policy.mode)
	}
	for i := range r.parts {
		it := &r.parts[i]
		if it.by != ByLimits || it.err != nil || r.asked {
			continue
		}
		if it.policy.shadow && (op != rule.Peek || decides < 0) {
			it.request = r.batch.begin(op)
			r.batch.add(it.rules.bound, it.Key, it.cost())
			if decides < 0 {
				mode = max(mode, it.policy.mode)
			}
		}
		if it.policy.tries(op, it.rules, &it.Part) {
			it.candidate = r.batch.begin(op)
			r.batch.add(it.policy.candidate.bound, it.Key, it.cost())
		}
	}
	return mode
}

// judge makes one verdict of what all said, and counts for each policy.
func (r *Request) judge(ctx context.Context, op rule.Op, mode Mode, v *Verdict) {
	rank, first := 0, -1 // of the verdict so far: 1 for a list, 2 for a shadow, 3 for a shadow that would refuse
	for i := range r.parts {
		it := &r.parts[i]
		p, worth := it.policy, 1
		if it.decides() {
			if first < 0 {
				first = i
			}
			continue
		}
		var own Verdict
		switch {
		case p.shadow && r.asked:
			continue
		case it.err != nil:
			p.mistake(&own, it.err)
		case it.by != ByLimits:
			p.listed(op, it.by, &it.Part, &own)
		case it.request < 0: // a peek, which asks those that decide
			continue
		default:
			own.Decision = r.batch.decision(it.request)
			p.decided(ctx, op, it.rules, &it.Part, &own, r.batch.requests[it.request].Err)
			r.tryCandidate(op, &it.asked, it.Key, own.Err == nil && own.Decision.Allowed)
			worth = 2
		}
		if p.shadow {
			if counts(op) && (it.Cost != 0 || own.Err != nil) {
				r.tell(&own)
			}
			if own.Err != nil {
				worth = 1
			} else if !own.Decision.Allowed {
				worth = 3
			}
		}
		if rank < worth {
			*v, rank = own, worth
		}
	}
	if first >= 0 {
		if rank > 0 {
			*v = Verdict{}
		}
		r.judgeLive(ctx, op, mode, first, v)
	}
}

// judgeLive makes the verdict of the policies that decide. One that would have admitted what another refused was not
// charged, and is not counted.
func (r *Request) judgeLive(ctx context.Context, op rule.Op, mode Mode, first int, v *Verdict) {
	live := &r.batch.requests[0]
	v.Policy = r.parts[first].policy.name
	v.Decision, v.Peek = r.batch.decision(0), true
	all := r.joint()
	v.Limits, v.note = all.limits, all.note
	for i := first; i < len(r.parts); i++ {
		it := &r.parts[i]
		if !it.decides() {
			continue
		}
		v.Peek = v.Peek && it.Cost == 0
		if it.policy.mode == mode {
			r.held, r.away = it.rules.limiter, r.set.traits[mode].RoundTrips > 0
		}
		if live.Err != nil {
			if counts(op) {
				it.policy.count(it.Key, Outcome{Failed: true})
			}
			continue
		}
		to := it.from + len(it.rules.bound)
		if index := int(v.Decision.Index); it.from <= index && index < to {
			v.Policy = it.policy.name
		}
		own := !slices.ContainsFunc(live.Answers[it.from:to], func(a rule.Answer) bool { return !a.Allowed })
		if counts(op) && it.Cost != 0 && (!own || v.Decision.Allowed) {
			it.policy.count(it.Key, Outcome{Refused: !own})
		}
		r.tryCandidate(op, &it.asked, it.Key, own)
	}
	if live.Err != nil {
		v.fail(ctx, mode, r.parts[first].cost(), live.Err)
	} else {
		r.set.explain(v, mode)
	}
	v.Refused = v.refuses()
	if !v.Decision.Allowed || v.Decision.Flags&undecided != 0 {
		r.held = nil
	}
}

// Held reports whether an admitted request has taken something that Settle can correct.
func (r *Request) Held() bool { return r.Hold && r.held != nil }

// tryCandidate counts and reports what a candidate said. Where the store did not answer, it said nothing.
func (r *Request) tryCandidate(op rule.Op, it *asked, key string, live bool) {
	if it.candidate < 0 || !counts(op) {
		return
	}
	said := &r.batch.requests[it.candidate]
	if said.Err != nil || said.Answers[0].Flags&fallbacks != 0 {
		return
	}
	_, allowed := rule.Deciding(said.Answers)
	it.policy.count(key, Outcome{Candidate: true, Refused: !allowed, LiveRefused: !live})
	if r.Tell {
		r.tell(&Verdict{
			Policy: it.policy.name, Candidate: true, Decision: slidegate.Combine(said),
			Limits: it.policy.candidate.limits, note: it.policy.candidate.note,
		})
	}
}

func (r *Request) tell(v *Verdict) {
	if r.Tell {
		r.tried = append(r.tried, *v)
	}
}

// Tried returns what the policies in the shadow and the candidates said to the last Decide, if Tell is set.
func (r *Request) Tried() []Verdict { return r.tried }

// Reservation returns what an admitted request took, to be settled when the true cost is known.
func (r *Request) Reservation() slidegate.Reservation {
	held := r.reservation()
	held.ID = rand.Text()
	return held
}

// reservation is Reservation without an ID, which is not needed where the request itself settles it.
func (r *Request) reservation() slidegate.Reservation {
	live := &r.batch.requests[0]
	held := slidegate.Reservation{Group: r.Group, Charges: make([]slidegate.ReservedCharge, len(live.Charges))}
	for i, charge := range live.Charges {
		held.Charges[i] = slidegate.ReservedCharge{
			Limit: slidegate.Unbind(charge.Limit), Key: []byte(charge.Key), Cost: charge.Cost, At: live.Answers[i].At,
		}
	}
	return held
}

// settleTime bounds how long settling takes in a store with round trips; the client does not wait for it.
const settleTime = 10 * time.Second

// Settle charges what an admitted request with Hold actually cost in place of its Cost: an excess is given back, and a
// shortfall is charged, beyond the quota if need be. Actual is called once for each policy that decided. The
// client may have gone, and what it used still counts: Settle works after ctx has ended.
func (r *Request) Settle(ctx context.Context, actual func(policy int, cost int64) int64) error {
	if r.held == nil {
		return fmt.Errorf("policy: %w: nothing was held", slidegate.ErrReservation)
	}
	held := r.reservation()
	costs := make([]int64, 0, len(held.Charges))
	for i := range r.parts {
		it := &r.parts[i]
		if it.request != 0 {
			continue
		}
		cost := min(actual(it.Policy, it.cost()), rule.MaxQuota)
		for range it.rules.bound {
			costs = append(costs, cost)
		}
	}
	ctx = context.WithoutCancel(ctx)
	if r.away {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settleTime)
		defer cancel()
	}
	return r.held.Settle(ctx, held, costs...)
}
