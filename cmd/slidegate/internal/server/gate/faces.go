package gate

import "github.com/slidegate/slidegate"

// LimitsOf returns the limits that a key faces under a policy: the policy's own, or those of the override that fits; none if
// there is no such policy, or no limit for the key. Lists are not looked at. They are shared and must not be changed.
func (g *Gate) LimitsOf(policy, key string) []slidegate.Limit {
	p := g.now.Load().policies[policy]
	if p == nil {
		return nil
	}
	for i := range p.Overrides {
		if p.Overrides[i].Fits(key) {
			return p.Overrides[i].Limits
		}
	}
	return p.Limits
}
