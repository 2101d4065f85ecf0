package httplimit

import "github.com/slidegate/slidegate"

// planned returns limits with the policy's name before their own, so that policies do not share counts by accident, and
// the items that header fields have of them.
func (p *policy) planned(limits []slidegate.Limit) ([]slidegate.Limit, []*HeaderItem, error) {
	named := make([]slidegate.Limit, 0, len(limits))
	items := make([]*HeaderItem, 0, len(limits))
	for _, limit := range limits {
		one, err := p.ready(limit)
		if err != nil {
			return nil, nil, err
		}
		named = append(named, one.limit)
		items = append(items, one)
	}
	return named, items, nil
}

// ready makes a limit ready, or finds it.
func (p *policy) ready(limit slidegate.Limit) (*HeaderItem, error) {
	if known := p.plans.find(limit); known != nil {
		return known, nil
	}
	called := limit
	if p.Name != "" {
		called.Name = p.stateName(limit.Name)
	}
	one, err := NewHeaderItem(called)
	if err == nil {
		p.plans.keep(limit, one)
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
