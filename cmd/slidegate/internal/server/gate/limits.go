package gate

import "github.com/slidegate/slidegate"

// LimitsOf returns the limits that apply to a key under a policy now: the policy's own, or those of a ruling or of the
// matching override. It returns none if the policy is unknown or the key has no limit. It ignores lists, and plans that
// requests select by anything other than their key. The limits are shared and must not be modified.
func (g *Gate) LimitsOf(policy, key string) []slidegate.Limit {
	s := g.current.Load()
	p := s.policies[policy]
	if p == nil {
		return nil
	}
	return s.set.LimitsOf(p.index, key)
}
