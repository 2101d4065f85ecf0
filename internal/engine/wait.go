package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/line"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Line counts the requests that wait in line under a policy. It is safe for concurrent use.
type Line struct {
	Waiting atomic.Int64 // now

	// Requests that have waited, each once. A request that is decided without standing in line is not among them.
	Admitted atomic.Int64
	Refused  atomic.Int64 // their turn came too late after all, or something else refused them in their turn
	GaveUp   atomic.Int64 // the client left
}

// checkWait returns an error for a limit under which requests cannot wait.
func checkWait(limit slidegate.Limit) error {
	if limit.CountRefused {
		return errors.New("wait: cannot be combined with count_refused: a request that waits is not refused, and would not be counted; leave one of them out")
	}
	return nil
}

// MaxWait is the longest time that a policy may let requests wait.
const MaxWait = time.Hour

// WaitAsLongAsNecessary is the Wait of a Part that ends with its context.
const WaitAsLongAsNecessary = 100 * 365 * 24 * time.Hour

// letWait sets how long requests wait under a policy.
func (p *compiledPolicy) letWait(given *Spec) error {
	switch {
	case given.Wait < 0 || given.Wait > MaxWait:
		return fmt.Errorf("%w: must be 0 to %v, not %v", slidegate.ErrLimit, MaxWait, given.Wait)
	case given.Wait > 0 && given.Penalty > 0:
		return fmt.Errorf("%w: cannot be combined with penalty: a request that waits is not refused; leave one of them out", slidegate.ErrLimit)
	}
	p.wait, p.line = given.Wait, given.Line
	if p.line == nil {
		p.line = new(Line)
	}
	return nil
}

// waitOf returns how long a part may wait.
func (p *compiledPolicy) waitOf(part *Part) time.Duration {
	if p.shadow || p.penalty != nil {
		return 0
	}
	if part.Wait != 0 {
		return part.Wait
	}
	return p.wait
}

// mayWait reports whether a policy lets the request wait.
func (t *Transaction) mayWait(op rule.Op) bool {
	if op != rule.Take {
		return false
	}
	for i := range t.given {
		if t.set.policies[t.given[i].Policy].waitOf(&t.given[i]) > 0 {
			return true
		}
	}
	return false
}

// inLine returns what the request takes of the limits that decide it together, and the longest wait that their policies allow; no charges if
// there is nothing to wait for.
func (t *Transaction) inLine() (charges []store.Charge, wait time.Duration, first *compiledPolicy) {
	t.routeAll(rule.Take, t.given)
	for i := range t.parts {
		it := &t.parts[i]
		if it.err != nil || refusesAll(it.by) {
			return nil, 0, nil
		}
		if !it.decides() || it.peeks() {
			continue
		}
		if own := it.policy.waitOf(it.Part); own > 0 && first == nil {
			first = it.policy
		}
		wait = max(wait, it.policy.waitOf(it.Part))
		for j, limit := range it.bundle.bound {
			if it.bundle.limits[j].CountRefused {
				return nil, 0, nil
			}
			charge := store.Charge{Limit: limit, Key: it.Key, Cost: it.cost()}
			if isSlots(limit) || it.later {
				charge.Cost = 1
			}
			charges = append(charges, charge)
		}
	}
	return charges, wait, first
}

// shortestWait is the shortest time for which a request stands in line: a shorter one could end before the store was asked at all.
const shortestWait = time.Millisecond

// decideInLine decides a request that may wait: it is admitted in its turn, or refused as soon as it is known that its turn comes too late.
func (t *Transaction) decideInLine(ctx context.Context, d *policy.Decision) {
	charges, wait, first := t.inLine()
	closing := t.set.opts.Closing
	if len(charges) == 0 || first == nil || wait < shortestWait || closing != nil && closing.Err() != nil {
		t.decideNow(ctx, rule.Take, d)
		return
	}
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if closing != nil {
		defer context.AfterFunc(closing, cancel)()
	}
	var end *time.Timer // of the wait that the policies allow that refuse
	t.trying = true
	first.line.Waiting.Add(1)
	request := line.Request{
		Store: t.set.store, Scope: line.Scope(t.set.store, t.set), Group: t.Group, Charges: charges,
		Take: func(context.Context) ([]rule.Answer, error) { // with the caller's context, which the end of the wait does not end
			if end != nil {
				end.Stop()
			}
			t.turn = policy.Decision{}
			if t.decideNow(ctx, rule.Take, &t.turn); failed(&t.turn) && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			left, final := t.refusedFor(wait, time.Since(began))
			final = final || !t.turn.Refused || t.turn.By != policy.ByLimits || failed(&t.turn) || t.turn.Penalty > 0 || t.turn.RetryAfter == slidegate.Never
			if !final {
				end = time.AfterFunc(left, cancel)
			}
			return answersInLine(&t.turn, len(charges), final), nil
		},
	}
	err := line.Wait(within, &request)
	if end != nil {
		end.Stop()
	}
	first.line.Waiting.Add(-1)
	defer func() { t.turn, t.trying = policy.Decision{}, false }()
	var late *line.Late
	switch {
	case err == nil || t.turn.Ended:
		*d = t.turn
	case errors.As(err, &late):
		t.refuseLate(ctx, d, late.After)
	case ctx.Err() != nil: // nothing is asked, or counted, for a client that has left
		*d = policy.Decision{Policy: first.name, Refused: true}
		fail(ctx, d, first.mode, 0, ctx.Err())
	case errors.Is(err, line.ErrNever):
		t.decideOutside(ctx, d)
	default:
		t.refuseLate(ctx, d, 0)
	}
	if d.Refused && err == nil && !failed(d) && d.By == policy.ByLimits {
		t.countRefused(d)
	}
	if !request.Stood {
		return
	}
	d.Waited = time.Since(began)
	switch {
	case !d.Refused:
		first.line.Admitted.Add(1)
	case d.Ended:
		first.line.GaveUp.Add(1)
	default:
		first.line.Refused.Add(1)
	}
}

// mayBeLeft reports whether the client may leave while the store is asked for a request in line: what is taken is then for the next one.
func (t *Transaction) mayBeLeft() bool { return t.trying && t.set.traits.RoundTrips > 0 }

// refusedFor returns for how long the policies that refuse still let the request wait, and whether that ends before their limits admit it.
func (t *Transaction) refusedFor(longest, waited time.Duration) (left time.Duration, late bool) {
	left = longest - waited
	for i := range t.plan.entries {
		e := &t.plan.entries[i]
		it := &t.parts[e.part]
		own := it.policy.waitOf(it.Part)
		if e.role > checks || !it.refused || own == longest { // the line itself ends the longest wait
			continue
		}
		d := t.plan.decision(e)
		left = min(left, own-waited)
		late = late || own <= waited || own-waited <= d.RetryAfter && !mayComeEarly(e, &d)
	}
	return left, late
}

// mayComeEarly reports whether a refusal may end before its time, because slots or held units are returned.
func mayComeEarly(e *entry, d *slidegate.Decision) bool {
	return isSlots(e.bundle.bound[d.Index]) || d.Flags&(rule.Held|rule.HoldsFull) != 0
}

// answersInLine returns the answers to a request in line. A refusal that is final leaves the line like an admission.
func answersInLine(d *policy.Decision, charges int, final bool) []rule.Answer {
	answers := make([]rule.Answer, charges)
	switch known := d.Allowed || !final; {
	case known && len(d.Answers) >= charges:
		copy(answers, d.Answers)
	case known && charges == 1 && len(d.Answers) == 0:
		answers[0] = rule.Answer{
			Allowed: d.Allowed, Flags: d.Flags, Granted: d.Granted, Remaining: d.Remaining, RetryAfter: micros(d.RetryAfter),
			ResetAfter: micros(d.ResetAfter), NextAfter: micros(d.NextAfter),
		}
	default:
		for i := range answers {
			answers[i] = rule.Answer{Allowed: true, Remaining: 1} // so that the next one asks
		}
	}
	return answers
}

func micros(d time.Duration) rule.Micros { return rule.Micros(d.Microseconds()) }

// decideOutside decides a request that does not stand in line anymore.
func (t *Transaction) decideOutside(ctx context.Context, d *policy.Decision) {
	t.trying, *d = false, policy.Decision{}
	t.decideNow(ctx, rule.Take, d)
}

// refuseLate refuses a request that would be admitted after this time, which is too late. What the limits say is peeked at: a unit that is free
// is for those who wait. If no limit answers, the request is decided as if there were no line.
func (t *Transaction) refuseLate(ctx context.Context, d *policy.Decision, after time.Duration) {
	*d = policy.Decision{}
	if t.decideNow(ctx, rule.Peek, d); failed(d) || d.By != policy.ByLimits {
		t.decideOutside(ctx, d)
		return
	}
	d.Allowed, d.Refused, d.Granted, d.NextAfter = false, true, 0, 0
	if d.RetryAfter = max(d.RetryAfter, after); d.RetryAfter == 0 {
		d.RetryAfter = time.Second
	}
	t.held.admitted = false
	clear(t.decided)
	t.decided = t.decided[:0]
	t.countRefused(d)
}

// countRefused counts the refusal of a request that has been in line, which is counted once.
func (t *Transaction) countRefused(d *policy.Decision) {
	for i := range t.plan.entries {
		e := &t.plan.entries[i]
		if it := &t.parts[e.part]; e.role <= checks && (it.refused || it.policy.name == d.Policy) {
			t.countJoint(it, e, Outcome{Refused: true}, &d.Decision)
		}
	}
}
