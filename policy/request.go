package policy

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Request is a request under several policies, or one that is settled afterwards: Add its parts, Decide, and End it.
// All policies admit and all are charged, or none is. Shadow policies and candidates are decided in the same call to
// the store, each independently, so that their denials do not keep the others from charging. Begin returns a Request;
// it is not safe for concurrent use.
type Request struct {
	// Group is the group of the request's charges; see slidegate.Claims.InGroup.
	Group string
	// Record makes Decided and Trials return the verdicts of single policies and candidates.
	Record bool
	// Slots defines who releases the slots that the request takes from in-flight limits. With the zero value, taking
	// from such a limit is a mistake.
	Slots Slots

	set       *Set
	parts     []part
	joined    []target // replaces parts in a batch of parts that are decided individually
	batch     batch
	decided   []Verdict
	tried     []Verdict
	triedOnce bool // shadow policies and candidates were decided: a waiting client decides several times

	holds    bool         // a part has Hold
	took     []heldCharge // what those parts have taken so far, and the slots of all parts
	owed     batch        // the requests that settle it
	mode     Mode         // of the store that was called last
	admitted bool         // by the last Decide
	takes    bool         // a part takes slots
	id       string       // of the reservation, chosen before anything is taken
	keeper   *keeper      // renews slots, if RenewSlots was called
}

// part is a Part that is being decided.
type part struct {
	Part
	target
	by      By
	err     error // of an invalid plan
	actual  int64 // the actual cost, if it is settled
	settled bool
}

// decides reports whether the limits of the part take part in the decision.
func (it *part) decides() bool { return it.by == ByLimits && !it.policy.shadow }

// target holds the rules that apply to a part, and its position in the batch.
type target struct {
	policy    *compiled
	rules     *rules
	request   int // the index of its request in the batch, or -1
	candidate int // the index of its candidate's request, or -1
	from      int // where its answers begin in that request, or its index in a batch
}

// Begin returns a request without parts.
func (s *Set) Begin() *Request {
	r := s.requests.Get().(*Request)
	r.set = s
	return r
}

// End recycles the request, cleared of its keys. Neither the request nor the result of Trials may be used afterwards.
// It releases the slots that the request still holds, unless they are SlotsReserved.
func (r *Request) End() {
	if r.Slots == SlotsHeld && r.holdsSlots() {
		r.Finish(context.Background(), nil, nil)
		return
	}
	r.recycle()
}

func (r *Request) recycle() {
	clear(r.parts)
	clear(r.joined)
	clear(r.decided)
	clear(r.tried)
	clear(r.took)
	r.batch.reset()
	r.owed.reset()
	s := r.set
	*r = Request{parts: r.parts[:0], joined: r.joined[:0], decided: r.decided[:0], tried: r.tried[:0], took: r.took[:0], batch: r.batch, owed: r.owed}
	if cap(r.batch.charges) <= maxKept {
		s.requests.Put(r)
	}
}

// Add adds a part to the request.
func (r *Request) Add(given Part) {
	r.parts = append(r.parts, part{Part: given, target: target{policy: r.set.policies[given.Policy]}})
	r.holds = r.holds || given.Hold
}

// HoldAll sets Hold on every part that costs something, for a caller that may have to refund what it took.
func (r *Request) HoldAll() {
	for i := range r.parts {
		if r.parts[i].Cost != 0 {
			r.parts[i].Hold, r.holds = true, true
		}
	}
}

// CountsDenied reports whether one of the limits counts denied requests, or a denial begins a penalty, so that a
// waiting client must peek before it takes.
func (r *Request) CountsDenied() bool {
	for i := range r.parts {
		it := &r.parts[i]
		it.rules, it.by, it.err = it.policy.route(rule.Take, &it.Part)
		if it.err == nil && it.by == ByLimits && it.policy.penalizes(rule.Take, it.rules, &it.Part) {
			return true
		}
		if it.err == nil && it.by == ByLimits && slices.ContainsFunc(it.rules.limits, func(l slidegate.Limit) bool { return l.CountDenied }) {
			return true
		}
	}
	return false
}

// Decide decides the request and fills v, which must be the zero value; the ops are those of Set.Decide. A client that
// waits calls it again. Where policies with different failure modes decide together, the strictest mode applies. If all
// parts are on lists or under shadow policies, v is the most informative verdict among them.
func (r *Request) Decide(ctx context.Context, op rule.Op, v *Verdict) {
	r.admitted = false
	r.decided = r.decided[:0]
	for i := range r.parts {
		it := &r.parts[i]
		p := it.policy
		it.request, it.candidate, it.from, it.slots = -1, -1, 0, false
		it.later = it.Hold && it.Cost == 0 && r.Slots == SlotsHeld
		it.rules, it.by, it.err = p.route(op, &it.Part)
		if it.err == nil && it.by == ByLimits {
			it.err = p.checkSlots(op, it.rules, r.Slots)
			it.slots = it.err == nil && it.rules.slots && op == rule.Take
			r.takes = r.takes || it.slots
		}
		switch {
		case p.shadow:
		case it.err != nil:
			p.setMistake(v, it.err)
			return
		case it.by.refuses():
			p.setListed(op, it.by, it.rules, &it.Part, v)
			return
		}
	}
	r.batch.reset()
	clear(r.tried)
	r.tried = r.tried[:0]
	if r.decideAlone(ctx, op, v) {
		return
	}
	if counts(op) && r.checkFree(ctx, op, v) {
		return
	}
	kept := op == rule.TakeUpTo && r.isKeptOut(ctx)
	if kept {
		op = rule.Take // it includes the penalty, and so is denied
	}
	r.mode = r.collect(op)
	if kept {
		r.batch.cancelPenalties()
	}
	if len(r.batch.requests) > 0 {
		if err := r.check(); err != nil {
			r.parts[0].policy.setMistake(v, err)
			return
		}
		r.apply(ctx, op)
	}
	r.combine(ctx, op, v)
	r.triedOnce = r.triedOnce || op != rule.Peek
	r.admitted = !v.Refused
}

// check returns an error if the store cannot decide the policies together.
func (r *Request) check() error {
	if err := r.set.checkCharges(r.batch.ends[0], r.mode); err != nil {
		return err
	}
	if !r.set.traits[r.mode].OneKey || r.Group != "" {
		return nil
	}
	for _, charge := range r.batch.charges[:r.batch.ends[0]] {
		if charge.Key != r.batch.charges[0].Key {
			return r.set.errKeys(r.mode)
		}
	}
	return nil
}

// apply calls the store. Operations that correct a charge are carried out even if the client has left.
func (r *Request) apply(ctx context.Context, op rule.Op) {
	if op == rule.GiveBack || op == rule.Charge {
		var cancel context.CancelFunc
		ctx, cancel = store.Detach(ctx, r.set.traits[r.mode])
		defer cancel()
	}
	if on := r.set.stores[r.mode]; counts(op) && (r.holds || r.takes) {
		r.awaitCancelled(r.batch.reserve(ctx, r.Group, r.reservationID(), on))
	} else {
		r.batch.apply(ctx, r.Group, 0, on)
	}
	r.awaitSlots(ctx)
	r.batch.applyPenalties(ctx, r.Group, r.set, r.mode)
}

// decideAlone decides a request with only one part by the shortest path, and reports whether it did.
func (r *Request) decideAlone(ctx context.Context, op rule.Op, v *Verdict) bool {
	if len(r.parts) != 1 || r.holds || r.takes || r.Group != "" {
		return false
	}
	it := &r.parts[0]
	p := it.policy
	if p.shadow || it.err != nil || it.by != ByLimits || p.penalizes(op, it.rules, &it.Part) || p.triesCandidate(op, it.rules, &it.Part, r.Slots) && !r.triedOnce {
		return false
	}
	it.policy.decideSingle(ctx, op, it.rules, &it.Part, v)
	r.reportUntried(op, &it.target)
	return true
}

// collect collects the requests to the store: first one for the policies that decide, then one for each shadow policy
// and each part that only peeks, then the candidates. It returns the failure mode of those that decide.
func (r *Request) collect(op rule.Op) (mode Mode) {
	decides, live := -1, op
	if counts(op) && r.onlyPeeks() {
		live = rule.Peek
	}
	for i := range r.parts {
		it := &r.parts[i]
		if !it.decides() {
			continue
		}
		mode = max(mode, it.policy.mode)
		if it.peeks() && counts(live) { // checkFree has checked it, and the others must not take for it
			continue
		}
		if decides < 0 {
			decides = r.batch.begin(live)
		}
		it.request, it.from = decides, len(r.batch.charges)
		r.batch.add(it.rules.bound, &it.Part)
	}
	for i := range r.parts {
		if it := &r.parts[i]; it.decides() && it.request >= 0 {
			r.batch.penalize(live, &it.target, &it.Part, it.from)
		}
	}
	for i := range r.parts {
		it := &r.parts[i]
		if it.decides() && it.request < 0 {
			it.request = r.batch.begin(rule.Peek)
			r.batch.add(it.rules.bound, &it.Part)
		}
		if it.by != ByLimits || it.err != nil || r.triedOnce {
			continue
		}
		if it.policy.shadow && (op != rule.Peek || decides < 0) {
			own := it.op(op)
			it.request = r.batch.begin(own)
			r.batch.add(it.rules.bound, &it.Part)
			r.batch.penalize(own, &it.target, &it.Part, 0)
			if decides < 0 {
				mode = max(mode, it.policy.mode)
			}
		}
		if it.policy.triesCandidate(op, it.rules, &it.Part, r.Slots) {
			r.takes = r.takes || it.policy.candidate.slots && op == rule.Take
			it.candidate = r.batch.begin(it.op(op))
			r.batch.add(it.policy.candidate.bound, &it.Part)
		}
	}
	return mode
}

// onlyPeeks reports whether all deciding parts are peeks.
func (r *Request) onlyPeeks() bool {
	for i := range r.parts {
		if it := &r.parts[i]; it.decides() && !it.peeks() {
			return false
		}
	}
	return true
}

// combine combines all decisions into one verdict, and counts for each policy.
func (r *Request) combine(ctx context.Context, op rule.Op, v *Verdict) {
	rank, first := 0, -1 // of the verdict so far: 1 for a list, 2 for a shadow policy, 3 for a shadow policy that would deny
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
		case p.shadow && r.triedOnce:
			continue
		case it.err != nil:
			p.setMistake(&own, it.err)
		case it.by != ByLimits:
			p.setListed(op, it.by, it.rules, &it.Part, &own)
		case it.request < 0: // a peek, which includes only the parts that decide
			continue
		default:
			own.Decision, own.Penalty = r.batch.decision(it.request), r.batch.left(it.request)
			p.complete(ctx, op, it.rules, &it.Part, &own, r.batch.requests[it.request].Err)
			r.keep(op, i, it.request)
			r.keep(op, i, it.candidate)
			r.tryCandidate(op, &it.target, it.Key, own.Err == nil && own.Decision.Allowed)
			worth = 2
		}
		if !p.shadow {
			r.addDecided(&own)
		} else {
			if counts(op) {
				r.addTried(&own)
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
		r.combineLive(ctx, op, first, v)
	}
	if v.Refused { // what another policy would have admitted was not charged
		r.decided = slices.DeleteFunc(r.decided, func(own Verdict) bool { return !own.Refused })
	}
}

// combineLive makes the verdict of the policies that decide. A policy that would have admitted what another denied was
// not charged, and is not counted.
func (r *Request) combineLive(ctx context.Context, op rule.Op, first int, v *Verdict) {
	live := &r.batch.requests[0]
	v.Policy, v.Plan = r.parts[first].policy.name, r.parts[first].rules.plan
	v.Decision, v.Penalty = r.batch.decision(0), r.batch.left(0)
	all := r.jointRules()
	v.Limits, v.note = all.limits, all.note
	r.keepLive(op)
	if live.Err != nil {
		v.fail(ctx, r.mode, r.parts[first].cost(), live.Err)
	} else {
		r.set.explain(v, r.mode)
	}
	for i := first; i < len(r.parts); i++ {
		it := &r.parts[i]
		if !it.decides() {
			continue
		}
		if v.failed() {
			if counts(op) && !v.Ended() {
				it.policy.count(it.Key, Outcome{Failed: true})
			}
			if v.fault <= faultStore { // otherwise it is about the whole request
				r.addLive(it, v)
			}
			continue
		}
		if it.request != 0 {
			r.addPeeked(op, it, v)
			continue
		}
		to := it.from + len(it.rules.bound)
		if index := int(v.Decision.Index); it.from <= index && index < to {
			v.Policy, v.Plan = it.policy.name, it.rules.plan
		}
		own := !slices.ContainsFunc(live.Answers[it.from:to], func(a rule.Answer) bool { return !a.Allowed })
		if counts(op) && (!own || v.Decision.Allowed) {
			it.policy.count(it.Key, Outcome{Refused: !own})
		}
		r.addLive(it, v)
		r.keep(op, i, it.candidate)
		r.tryCandidate(op, &it.target, it.Key, own)
	}
	v.Refused = v.refuses()
}

// addPeeked adds to a verdict the answers of a part that only peeked, and counts it if the request is admitted.
func (r *Request) addPeeked(op rule.Op, it *part, v *Verdict) {
	if counts(op) && v.Decision.Allowed {
		it.policy.count(it.Key, Outcome{})
		r.tryCandidate(op, &it.target, it.Key, true)
	}
	if !it.hasAnswers(r) {
		return
	}
	if v.Decision.Answers == nil { // there is a single limit
		v.Decision.Answers = slices.Clone(r.batch.requests[0].Answers)
	}
	v.Decision.Answers = append(v.Decision.Answers, r.batch.requests[it.request].Answers...)
}

// hasAnswers reports whether the answers of the part's limits are in the verdict: always for parts that decide, and for
// parts that only peeked if the store answered.
func (it *part) hasAnswers(r *Request) bool {
	return it.decides() && it.request >= 0 && (it.request == 0 || r.batch.requests[it.request].Err == nil)
}

// tryCandidate counts and reports the decision of a candidate. Where the store did not answer, there is none.
func (r *Request) tryCandidate(op rule.Op, it *target, key string, live bool) {
	if it.candidate < 0 || !counts(op) {
		r.reportUntried(op, it)
		return
	}
	result := &r.batch.requests[it.candidate]
	if result.Err != nil || result.Answers[0].Flags.Fallback() {
		return
	}
	_, allowed := rule.DecidingIndex(result.Answers)
	it.policy.count(key, Outcome{Candidate: true, Refused: !allowed, LiveRefused: !live})
	if r.Record {
		r.addTried(&Verdict{
			Policy: it.policy.name, Candidate: true, Decision: slidegate.Combine(result),
			Limits: it.policy.candidate.limits, note: it.policy.candidate.note,
		})
	}
}

// reportUntried reports a candidate that could not be decided, because nothing would release its slots.
func (r *Request) reportUntried(op rule.Op, it *target) {
	if p := it.policy; r.Record && !r.triedOnce && p.candidate != nil && it.rules == p.own && counts(op) {
		if err := p.candidateError(op, r.Slots); err != nil {
			r.addTried(&Verdict{Policy: p.name, Candidate: true, Err: err, fault: faultMistake})
		}
	}
}

func (r *Request) addTried(v *Verdict) {
	if r.Record {
		r.tried = append(r.tried, *v)
	}
}

// Trials returns the verdicts of the shadow policies and candidates for the last Decide, if Record is set.
func (r *Request) Trials() []Verdict { return r.tried }
