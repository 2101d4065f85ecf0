package routing

import (
	"errors"
	"slices"

	"github.com/slidegate/slidegate"
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
