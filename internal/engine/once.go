package engine

import (
	"context"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// CancelCall cancels the call that was decided for a part with the same ID and key under one policy; see slidegate.Limiter.CancelCall. It
// returns the limits of the settlement too, in the same order; none if no limits decide about the key.
func (s *Set) CancelCall(ctx context.Context, part Part) (done slidegate.Settlement, limits []slidegate.Limit, err error) {
	p := s.policies[part.Policy]
	b, by, err := p.route(rule.GiveBack, &part)
	if err != nil || by != policy.ByLimits {
		return done, nil, err
	}
	done, err = b.limiter.Once(part.ID).CancelCall(ctx, part.Key)
	return done, b.limits, err
}
