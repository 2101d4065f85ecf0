package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
)

// Ruling is what an operator decides about one key of a policy at run time. It takes precedence over the policy's
// lists, overrides and plans until it ends. Exactly one of Refused, Unlimited and Limits is set.
type Ruling struct {
	Key       string            // the client, written as in Override.Key without Pattern; see Set.ReadKey
	Refused   bool              // everything is denied; refunds and charges of units already used still count
	Unlimited bool              // everything is admitted, and nothing is charged
	Limits    []slidegate.Limit // instead of those that would apply to the key, and without their penalty; see Limits for which counts they share
	Until     time.Time         // when it ends, by the clock of this process; zero if it does not
}

// rulingSet holds the compiled rulings of a policy. It does not change.
type rulingSet struct {
	single  keyTable[*ruling] // those that mean one key or one prefix
	several keyTable[*ruling] // those that mean several keys, such as a name under any of several headers
	all     []*ruling
}

// ruling is a compiled Ruling.
type ruling struct {
	*rules // with a limiter if it has limits
	by     By
	until  time.Time // zero if it does not end
	id     planID    // of its limits
	keys   []KeyMatch
	text   string // Key as it was given
}

// inForce reports whether the ruling has not ended.
func (r *ruling) inForce() bool { return r.until.IsZero() || time.Now().Before(r.until) }

// refusedFor returns how long rules without limits deny everything: to the end of a ruling, or forever.
func (r *rules) refusedFor() time.Duration {
	if r == nil || r.until.IsZero() {
		return slidegate.Never
	}
	return max(time.Until(r.until), time.Microsecond) // it was just in force
}

// SetRulings atomically replaces all rulings of the policy, or none. Of several rulings about one key, a key precedes a
// prefix, and a long prefix a short one; of the same length, one that means nothing else precedes one that means several; of
// the same text, the last applies. If a ruling is invalid, SetRulings returns the error for the first invalid one and changes nothing. A Set that replaces this
// one begins without rulings.
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
	known := map[planID]*rules{} // many keys may have the same limits
	if before := p.rulings.Load(); before != nil {
		for _, r := range before.all {
			if r.limiter != nil && r.id.count <= maxPlanLimits {
				known[r.id] = r.rules
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
		if len(r.keys) == 1 {
			made.single.add(r.keys, r)
		} else {
			made.several.add(r.keys, r)
		}
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
func (p *compiled) ruling(given *Ruling, known map[planID]*rules) (*ruling, error) {
	read, err := ReadKey(p.form, given.Key, false)
	if err != nil {
		return nil, fmt.Errorf("policy %q: ruling: key: %w", p.name, err)
	}
	made := &ruling{rules: &rules{}, until: given.Until, keys: read.Keys, text: given.Key}
	switch {
	case given.Refused && !given.Unlimited && len(given.Limits) == 0:
		made.by, made.rules.until = ByRuling, given.Until
		return made, nil
	case given.Unlimited && !given.Refused && len(given.Limits) == 0:
		made.by = ByUnlimited
		return made, nil
	case given.Refused || given.Unlimited || len(given.Limits) == 0:
		return nil, fmt.Errorf("policy %q: ruling: %w: exactly one of Refused, Unlimited and Limits must be set", p.name, slidegate.ErrLimit)
	}
	var short bool
	made.id, short = planIDOf(given.Limits)
	if r := known[made.id]; short && r != nil {
		made.rules = r
		return made, nil
	}
	r, err := p.plan(given.Limits)
	switch {
	case err != nil:
		return nil, fmt.Errorf("policy %q: ruling: %w", p.name, err)
	case r.slots && !p.hasSlots():
		return nil, fmt.Errorf("policy %q: ruling: %w: the policy has no in-flight limit, so nothing would release the slots of this one", p.name, slidegate.ErrUnsupported)
	}
	r.ruled = true
	if err := p.set.checkCharges(len(r.bound), p.mode); err != nil {
		return nil, fmt.Errorf("policy %q: ruling: %w", p.name, err)
	}
	if short && known != nil {
		known[made.id] = r
	}
	made.rules = r
	return made, nil
}

// hasSlots reports whether the policy itself or an override has an in-flight limit.
func (p *compiled) hasSlots() bool {
	return p.own.slots || slices.ContainsFunc(p.ordered, func(r *rules) bool { return r.slots })
}

// rulingOf returns the ruling about a key that is in force, or nil.
func (p *compiled) rulingOf(key string) *ruling {
	all := p.rulings.Load()
	if all == nil {
		return nil
	}
	found, length := firstInForce(&all.single, key)
	if length == keyLength {
		return found
	}
	if other, longer := firstInForce(&all.several, key); other != nil && (found == nil || longer > length) {
		return other
	}
	return found
}

// firstInForce returns the first ruling of a table about a key that is in force, or nil, and the length of its match.
func firstInForce(table *keyTable[*ruling], key string) (found *ruling, length int) {
	table.each(key, func(r *ruling, of int) bool {
		if r.inForce() {
			found, length = r, of
		}
		return found == nil
	})
	return found, length
}

// Outranking returns the Keys of the rulings in force that decide, instead of the ruling with this Key, about some of the
// keys that it means.
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
		if i != at && r.inForce() && r.outranks(all.all[at], i < at) {
			texts = append(texts, r.text)
		}
	}
	return texts
}

// outranks reports whether a ruling takes precedence over another one about some key. Precedes says which one of them it is
// if nothing else does.
func (r *ruling) outranks(other *ruling, precedes bool) bool {
	if single := len(r.keys) == 1; single != (len(other.keys) == 1) {
		precedes = single
	}
	return slices.ContainsFunc(r.keys, func(mine KeyMatch) bool {
		return slices.ContainsFunc(other.keys, func(theirs KeyMatch) bool {
			switch mineLength, length := mine.length(), theirs.length(); {
			case mineLength < length, mineLength == length && !precedes:
				return false
			case mine.Prefix.IsValid():
				return mine.Key == theirs.Key && within(mine.Prefix, theirs.Prefix)
			}
			return theirs.matches(mine.Key)
		})
	})
}

// RulingOf returns the Key of the ruling about a key that is in force, as it was passed to SetRulings.
func (s *Set) RulingOf(policy int, key string) (text string, found bool) {
	if r := s.policies[policy].rulingOf(key); r != nil {
		return r.text, true
	}
	return "", false
}

// LimitsOf returns the limits that currently apply to a key under a policy: those of a ruling, an override or the
// policy. It returns nil for a key without limits, and for one that a ruling denies. It ignores lists and plans.
func (s *Set) LimitsOf(policy int, key string) []slidegate.Limit {
	p := s.policies[policy]
	if r := p.rulingOf(key); r != nil {
		return r.limits
	}
	return p.rulesFor(key).limits
}
