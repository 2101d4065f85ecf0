package httplimit

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate"
)

// maxPlans is how many limits a policy remembers; further ones still work and are made ready anew at each request.
const maxPlans = 1024

// plans remembers what a policy made of limits, so that a plan costs a look-up at each request. The zero value is empty.
type plans struct {
	known atomic.Pointer[map[slidegate.Limit]told] // read without a lock, so never written to
	mu    sync.Mutex
}

// planned returns limits with the policy's name before their own, so that policies do not share counts by accident, and
// how responses tell about them.
func (p *policy) planned(limits []slidegate.Limit) ([]slidegate.Limit, []told, error) {
	named := make([]slidegate.Limit, 0, len(limits))
	tolds := make([]told, 0, len(limits))
	for _, limit := range limits {
		one, err := p.ready(limit)
		if err != nil {
			return nil, nil, err
		}
		named = append(named, one.limit)
		tolds = append(tolds, one)
	}
	return named, tolds, nil
}

// ready makes a limit ready, or finds it.
func (p *policy) ready(limit slidegate.Limit) (told, error) {
	if known := p.plans.known.Load(); known != nil {
		if one, ok := (*known)[limit]; ok {
			return one, nil
		}
	}
	called := limit
	if p.Name != "" {
		called.Name = p.stateName(limit.Name)
	}
	one, err := tell(cmp.Or(called.Name, limit.String()), called)
	if err == nil {
		p.plans.remember(limit, one)
	}
	return one, err
}

// stateName is what the counts of a limit of the policy belong to.
func (p *policy) stateName(limit string) string {
	if limit == "" {
		return p.Name
	}
	return p.Name + "/" + limit
}

func (s *plans) remember(limit slidegate.Limit, one told) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[slidegate.Limit]told{}
	if known := s.known.Load(); known != nil {
		if len(*known) >= maxPlans {
			return
		}
		next = maps.Clone(*known)
	}
	next[limit] = one
	s.known.Store(&next)
}
