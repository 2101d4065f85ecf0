package gate

import "github.com/slidegate/slidegate"

// LimitsOf returns the limits that a key faces under a policy now: the policy's own, or those of a ruling or of the override that
// fits; none if there is no such policy, or no limit for the key. Lists are not looked at, nor plans that requests have by something
// else than their key. They are shared and must not be changed.
func (g *Gate) LimitsOf(policy, key string) []slidegate.Limit {
	s := g.now.Load()
	p := s.policies[policy]
	if p == nil {
		return nil
	}
	return s.set.LimitsOf(p.place, key)
}
