package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/policy"
)

// Ruling is what an operator decides about one key of a policy at run time. It takes precedence over the policy's
// lists, overrides and plans until it ends. Exactly one of Refused, Unlimited and Limits is set.
type Ruling struct {
	Key       string            // as requests have it, or with a prefix in place of the address; see Set.ReadKey
	Refused   bool              // everything is refused; refunds and charges of units already used still count
	Unlimited bool              // everything is admitted, and nothing is charged
	Limits    []slidegate.Limit // instead of those that would apply to the key, and without their penalty; see Limits for which counts they share
	Until     time.Time         // when it ends, by the clock of this process; zero if it does not
}

// rulingSet holds the compiled rulings of a policy. It does not change.
type rulingSet struct {
	keys keyform.Table[*ruling]
	all  []*ruling
}

// ruling is a compiled Ruling.
type ruling struct {
	*bundle // with a limiter if it has limits
	by      policy.By
	until   time.Time // zero if it does not end
	id      planID    // of its limits
	key     keyform.Match
	text    string // Key as it was given
}

// inForce reports whether the ruling has not ended.
func (r *ruling) inForce() bool { return r.until.IsZero() || time.Now().Before(r.until) }

// SetRulings atomically replaces all rulings of the policy, or none. Of several rulings about one key, a key precedes a
// prefix, and a long prefix a short one; of the same text, the last applies. If a ruling is invalid, SetRulings returns the error for the
// first invalid one and changes nothing. A Set that replaces this one begins without rulings.
//
// A concurrent request is decided by either the old or the new rulings. Requests that were already admitted continue,
// and can be settled and keep their slots.
func (s *Set) SetRulings(policy int, rulings []Ruling) error {
	p := s.policies[policy]
	if len(rulings) == 0 {
		p.rulings.Store(nil)
		return nil
	}
	made := &rulingSet{all: make([]*ruling, len(rulings))}
	known := map[planID]*bundle{} // many keys may have the same limits
	if before := p.rulings.Load(); before != nil {
		for _, r := range before.all {
			if r.limiter != nil && r.id.count <= maxPlanLimits {
				known[r.id] = r.bundle
			}
		}
	}
	for i := range rulings {
		r, err := p.ruling(&rulings[i], known)
		if err != nil {
			return err
		}
		made.all[len(rulings)-1-i] = r // the last precedes
	}
	for _, r := range made.all {
		made.keys.Add(r.key, r)
	}
	p.rulings.Store(made)
	return nil
}

// CheckRuling returns the error that SetRulings would return for a ruling.
func (s *Set) CheckRuling(policy int, ruling Ruling) error {
	_, err := s.policies[policy].ruling(&ruling, nil)
	return err
}

// ruling compiles one ruling. Known maps limits to their compiled rules, and is added to.
func (p *compiledPolicy) ruling(given *Ruling, known map[planID]*bundle) (*ruling, error) {
	read, err := keyform.Read(p.form, given.Key, false)
	if err != nil {
		return nil, fmt.Errorf("policy %q: ruling: key: %w", p.name, err)
	}
	made := &ruling{bundle: &bundle{}, until: given.Until, key: read, text: given.Key}
	switch {
	case given.Refused && !given.Unlimited && len(given.Limits) == 0:
		made.by, made.bundle.until = policy.ByRuling, given.Until
		return made, nil
	case given.Unlimited && !given.Refused && len(given.Limits) == 0:
		made.by = policy.ByUnlimited
		return made, nil
	case given.Refused || given.Unlimited || len(given.Limits) == 0:
		return nil, fmt.Errorf("policy %q: ruling: %w: exactly one of Refused, Unlimited and Limits must be set", p.name, slidegate.ErrLimit)
	}
	var short bool
	made.id, short = planIDOf(given.Limits)
	if r := known[made.id]; short && r != nil {
		made.bundle = r
		return made, nil
	}
	r, err := p.bundle(given.Limits)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policy %q: ruling: %w", p.name, err)
	case r.slots && !p.hasSlots():
		return nil, fmt.Errorf("policy %q: ruling: %w: the policy has no in-flight limit, so nothing would release the slots of this one", p.name, slidegate.ErrUnsupported)
	}
	r.ruled, r.notify = true, nil // equal limits of the policy may have thresholds
	if err := p.set.checkCharges(len(r.bound)); err != nil {
		return nil, fmt.Errorf("policy %q: ruling: %w", p.name, err)
	}
	if short && known != nil {
		known[made.id] = r
	}
	made.bundle = r
	return made, nil
}

// rulingOf returns the ruling about a key that is in force, or nil.
func (p *compiledPolicy) rulingOf(key string) (found *ruling) {
	all := p.rulings.Load()
	if all == nil {
		return nil
	}
	all.keys.Each(key, func(r *ruling, _ int) bool {
		if r.inForce() {
			found = r
		}
		return found == nil
	})
	return found
}

// Outranking returns the Keys of the rulings in force that decide, instead of the ruling with this Key, about some of the
// keys that it matches.
func (s *Set) Outranking(policy int, key string) (texts []string) {
	all := s.policies[policy].rulings.Load()
	if all == nil {
		return nil
	}
	at := slices.IndexFunc(all.all, func(r *ruling) bool { return r.text == key })
	if at < 0 {
		return nil
	}
	for i, r := range all.all {
		if i != at && r.inForce() && r.key.Outranks(&all.all[at].key, i < at) {
			texts = append(texts, r.text)
		}
	}
	return texts
}

// RulingOf returns the Key of the ruling about a key that is in force, as it was passed to SetRulings.
func (s *Set) RulingOf(policy int, key string) (text string, found bool) {
	if r := s.policies[policy].rulingOf(key); r != nil {
		return r.text, true
	}
	return "", false
}
