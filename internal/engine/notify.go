package engine

import (
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// threshold is a policy.Threshold of one of the limits of a bundle.
type threshold struct {
	index   int // of the limit
	percent int64
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
	one := [1]rule.Answer{{Granted: d.Granted, Remaining: d.Remaining, Flags: d.Flags}}
	p.noteAnswers(b, key, one[:])
}

// NoteSettled notes the thresholds that a settlement crossed by charging units to one of the policy's limits beyond its reservation, given
// the store's answer for that limit. The answer has what is left at that moment, so what others charge or return meanwhile hides nothing.
// A reservation does not say its plan, but limits that are equal have the same thresholds.
func (s *Set) NoteSettled(policy int, limit *store.Limit, key string, answer rule.Answer) {
	p := s.policies[policy]
	if r := p.rulingOf(key); r != nil && r.limiter != nil {
		return // limits of a ruling have none
	}
	var from *bundle
	var index int
	p.eachBundle(key, func(b *bundle) {
		if i := slices.IndexFunc(b.bound, func(own *store.Limit) bool {
			return own.Prefix() == limit.Prefix() && *own.Rule() == *limit.Rule()
		}); i >= 0 {
			from, index = b, i
		}
	})
	if from == nil {
		return
	}
	answer.Granted = -answer.Granted // a settlement says what it returned
	for _, t := range from.notify {
		if t.index == index {
			p.noteAnswer(from, t, key, &answer)
		}
	}
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
// answer says how much.
func (p *compiledPolicy) noteAnswer(b *bundle, t threshold, key string, a *rule.Answer) {
	l := b.bound[t.index].Rule()
	size := l.Quota
	if l.Algorithm == rule.TokenBucket {
		size = l.Burst
	}
	used := size - a.Remaining
	if used*100 >= t.percent*size && (used-a.Granted)*100 < t.percent*size && a.Flags&unnoted == 0 {
		p.crossed(key, b.bound[t.index], int(t.percent))
	}
}
