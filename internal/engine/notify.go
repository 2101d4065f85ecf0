package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Crossing is that a key's usage of a limit reached a threshold by a decision.
type Crossing struct {
	Limit   *store.Limit
	Percent int
	Used    int64         // after the decision; Size if it is more
	Size    int64         // the quota or, for a token bucket, the burst
	At      rule.Micros   // the store's time of the decision
	Reset   time.Duration // until the whole quota is free again if nothing else arrives
	Shadow  bool
	Plan    string
}

// threshold is a Threshold of one of the limits of a bundle.
type threshold struct {
	index   int // of the limit
	percent int64
}

// CheckNotify returns an error for a limit of which no decision shows that a threshold was crossed.
func CheckNotify(limit slidegate.Limit) error {
	switch {
	case limit.Algorithm == slidegate.InFlight:
		return errors.New("cannot be used with in-flight: slots are taken and released all the time; leave one of them out")
	case limit.Lease:
		return errors.New("cannot be combined with lease: leased units are spent without the store, which then sees no crossing; leave one of them out")
	case limit.CountRefused:
		return errors.New("cannot be combined with count_refused: refused requests would cross thresholds that no answer shows; leave one of them out")
	}
	return nil
}

// notify sets the thresholds of a policy.
func (p *compiledPolicy) notify(given *Spec) error {
	for i := range given.Notify {
		one := &given.Notify[i]
		if one.Percent < 1 || one.Percent > 100 {
			return fmt.Errorf("%w: must be 1%% to 100%%, not %d%%", slidegate.ErrLimit, one.Percent)
		}
		if err := CheckNotify(one.Limit); err != nil {
			return fmt.Errorf("%w: %w", slidegate.ErrLimit, err)
		}
	}
	if len(given.Notify) > 0 && given.Crossed == nil {
		return fmt.Errorf("%w: nothing receives the notifications here; only slidegate serve and slidegate proxy send them", slidegate.ErrUnsupported)
	}
	p.thresholds, p.crossed = given.Notify, given.Crossed
	return nil
}

// thresholdsOf returns the thresholds of limits, with the names that the policy has for them.
func (p *compiledPolicy) thresholdsOf(limits []slidegate.Limit) (all []threshold) {
	for i, limit := range limits {
		for _, one := range p.thresholds {
			if one.Limit == limit {
				all = append(all, threshold{i, int64(one.Percent)})
			}
		}
	}
	return all
}

// noteDecision notes the thresholds that a decision of these limits crossed.
func (p *compiledPolicy) noteDecision(op rule.Op, b *bundle, key string, d *policy.Decision) {
	if len(b.notify) == 0 || op != rule.Take && op != rule.TakeUpTo && op != rule.Charge || !d.Allowed {
		return
	}
	if d.Answers != nil {
		p.noteAnswers(b, key, d.Answers)
		return
	}
	one := [1]rule.Answer{{
		Granted: d.Granted, Remaining: d.Remaining, ResetAfter: rule.Micros(d.ResetAfter.Microseconds()), At: d.At, Flags: d.Flags,
	}}
	p.noteAnswers(b, key, one[:])
}

// NoteSettled notes the thresholds that a settlement crossed by charging units to one of the policy's limits beyond its reservation, given
// the store's answer for that limit. The answer has what is left at that moment, so what others charge or return meanwhile hides nothing.
func (s *Set) NoteSettled(policy int, limit *store.Limit, key string, answer rule.Answer) {
	p := s.policies[policy]
	b, index := p.reservedFrom(limit, key)
	if b == nil {
		return
	}
	answer.Granted = -answer.Granted // a settlement says what it returned
	for _, t := range b.notify {
		if t.index == index {
			p.noteAnswer(b, t, key, &answer)
		}
	}
}

// reservedFrom returns the limits with thresholds from which a key reserved units of one limit, as far as that shows, and the index of that
// limit; nil if there are none. A reservation does not say its plan: of several with the same limit, it is the first.
func (p *compiledPolicy) reservedFrom(limit *store.Limit, key string) (b *bundle, index int) {
	if r := p.rulingOf(key); r != nil && r.limiter != nil {
		return nil, 0 // limits of a ruling have none
	}
	own := p.bundleFor(key)
	all := []*bundle{own}
	if own == p.own {
		for _, other := range p.ordered {
			if other.plan != "" {
				all = append(all, other)
			}
		}
	}
	for _, b := range all {
		if len(b.notify) == 0 {
			continue
		}
		for i, own := range b.bound {
			if own.Prefix() == limit.Prefix() && *own.Rule() == *limit.Rule() {
				return b, i
			}
		}
	}
	return nil, 0
}

// unnoted are the flags of answers that show no crossing: what a failure mode counted is not what the store has, and a repetition changed
// nothing.
const unnoted = answering.Fallbacks | rule.Repeated

// noteAnswers notes the thresholds that answers to an admitted request crossed.
func (p *compiledPolicy) noteAnswers(b *bundle, key string, answers []rule.Answer) {
	for _, t := range b.notify {
		if t.index < len(answers) {
			p.noteAnswer(b, t, key, &answers[t.index])
		}
	}
}

// noteAnswer notes a threshold if an answer shows that what it granted crossed it, or may have: of a key that has used more than there is, no
// answer says how much. The receiver has one event for both.
func (p *compiledPolicy) noteAnswer(b *bundle, t threshold, key string, a *rule.Answer) {
	l := b.bound[t.index].Rule()
	size := l.Quota
	if l.Algorithm == rule.TokenBucket {
		size = l.Burst
	}
	used := size - a.Remaining
	if before := used - a.Granted; used*100 < t.percent*size || before*100 >= t.percent*size || a.Flags&unnoted != 0 {
		return
	}
	at, _ := answering.Unmark(a.At)
	p.crossed(key, &Crossing{
		Limit: b.bound[t.index], Percent: int(t.percent), Used: used, Size: size, At: at, Reset: a.ResetAfter.Duration(),
		Shadow: p.shadow, Plan: b.plan,
	})
}
