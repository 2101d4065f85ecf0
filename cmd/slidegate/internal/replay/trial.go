package replay

import "github.com/slidegate/slidegate"

// trial tries a suggested limit on the traffic: alone, and together with all other limits.
type trial struct {
	alone *run
	log   *exact
	whole *run // nil if there are no other limits
}

// trial returns a trial of the suggested limit.
func (r *replay) trial() (*trial, error) {
	quota, err := r.smallestQuota()
	if err != nil {
		return nil, err
	}
	limit := withQuota(r.groups[0].Limits[0], quota)
	alone, err := newRun("", onlyGroup([]slidegate.Limit{limit}), true)
	if err != nil {
		return nil, invalid("Suggest", "the quota would be %d: %w", quota, reason(err))
	}
	t := &trial{alone: alone, log: newExact(alone.groups)}
	if len(r.groups) > 1 || len(r.groups[0].Limits) > 1 {
		runs, err := sweepRuns(r.groups, []int64{quota})
		if err != nil {
			return nil, err
		}
		t.whole = runs[0]
	}
	return t, nil
}

// smallestQuota returns the smallest quota that touches no more keys than allowed.
func (r *replay) smallestQuota() (int64, error) {
	allowed := maxTouched(r.opts.Percent, r.feed.keys[0].len())
	if r.demand != nil {
		return r.demand.smallestQuota(allowed), nil
	}
	return quotaFromSweep(r.alone, int64(allowed))
}

// decide tries the limit on one request.
func (t *trial) decide(q *request) {
	one := [1]request{*q}
	if q.group == 0 {
		t.log.decide(one[:])
		t.alone.decide(one[:])
	}
	if t.whole != nil {
		t.whole.decide(one[:])
	}
}

func (t *trial) findings(names []*keys, opts *Options) *Suggestion {
	found := &Suggestion{Percent: opts.Percent, Outcome: t.alone.outcome(names, opts.Top)}
	if t.whole != nil {
		whole := t.whole.outcome(names, 0)
		found.Whole = &whole
	}
	return found
}
