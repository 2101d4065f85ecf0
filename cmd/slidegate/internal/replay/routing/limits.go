package routing

import (
	"errors"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
)

// removeSlots removes the in-flight limits from a policy: replay does not know how long requests took.
func (f *compiled) removeSlots() error {
	f.Limits = f.rates(f.Limits)
	f.Overrides = slices.Clone(f.Overrides)
	empty := len(f.Limits) == 0
	for i := range f.Overrides {
		override := &f.Overrides[i]
		override.Limits = f.rates(override.Limits)
		empty = empty || !override.Unlimited && len(override.Limits) == 0
	}
	f.Plans = slices.Clone(f.Plans)
	for i := range f.Plans {
		plan := &f.Plans[i]
		plan.Limits = f.rates(plan.Limits)
		empty = empty || !plan.Unlimited && len(plan.Limits) == 0
	}
	if f.slots && empty {
		return errors.New("in-flight limits cannot be replayed, because replay does not know how long requests took, " +
			"and there are no other limits; replay another policy of the file with --policy")
	}
	return nil
}

// rates returns limits without the in-flight ones.
func (f *compiled) rates(limits []slidegate.Limit) []slidegate.Limit {
	var kept []slidegate.Limit
	for _, limit := range limits {
		if limit.Algorithm == slidegate.InFlight {
			f.slots = true
			continue
		}
		kept = append(kept, limit)
	}
	return kept
}

// WithAlgorithmOf returns limit with the algorithm of the limit of the same name in bases, if limit names none, as the service
// does for overrides and plans. It returns limit unchanged if that makes no difference.
func WithAlgorithmOf(limit slidegate.Limit, bases ...slidegate.Limit) slidegate.Limit {
	alone, err := adapter.Bind("", limit)
	if err != nil {
		return limit
	}
	for _, base := range bases {
		like := adapter.Like(limit, base)
		if base.Name == limit.Name && like != limit && like.Algorithm != alone.Rule().Algorithm {
			return like
		}
	}
	return limit
}

func withAlgorithmsOf(limits, bases []slidegate.Limit) []slidegate.Limit {
	all := slices.Clone(limits)
	for i := range all {
		all[i] = WithAlgorithmOf(all[i], bases...)
	}
	return all
}
