package store

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/rule"
)

// Mode is a failure mode: what decides a request that the store does not answer. The zero value means the default of the
// layer that handles failures, which is FailLocal unless its options say otherwise.
type Mode uint8

// The modes, in increasing strictness. Where limits with different modes decide together, the strictest applies.
const (
	FailOpen   Mode = iota + 1 // requests are admitted
	FailLocal                  // the same limits decide, counted in this process
	FailClosed                 // requests are refused
	Modes                      // the number of modes and the zero value, for arrays
)

var modeNames = [Modes]string{"", "open", "local", "closed"}

// String returns open, local or closed, as configuration files, flags, logs and metrics name the mode. It
// returns "" for the zero value.
func (m Mode) String() string {
	if m >= Modes {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return modeNames[m]
}

// ParseMode returns the mode of that name. The error names the mode that was probably meant.
func ParseMode(name string) (Mode, error) {
	for m := FailOpen; m < Modes; m++ {
		if modeNames[m] == name {
			return m, nil
		}
	}
	return 0, errtext.Unknown(name, "a failure mode", []string{FailLocal.String(), FailClosed.String(), FailOpen.String()})
}

// In returns a store that passes all requests to s with their limits in a mode: what s does not answer is decided by
// that mode. It has an effect only if s has a layer that handles failures.
func In(s Store, mode Mode) Store {
	if v, ok := s.(*view); ok {
		s = v.Store
	}
	return &view{Store: s, one: Single(s), mode: mode}
}

// ModeOf returns the mode of a store that In returned, otherwise 0.
func ModeOf(s Store) Mode {
	if v, ok := s.(*view); ok {
		return v.mode
	}
	return 0
}

// view is a Store whose requests have a mode.
type view struct {
	Store
	one  SingleTaker // the same store
	mode Mode
}

// Unwrap returns the store that the view is of.
func (v *view) Unwrap() Store { return v.Store }

// TakeSingle passes a request on.
func (v *view) TakeSingle(ctx context.Context, limit *Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	return v.one.TakeSingle(ctx, limit.In(v.mode), key, cost)
}

// Apply passes a batch on. It copies the batch only if a limit was not bound in the view's mode, as a Limiter over the view
// binds all of its limits.
func (v *view) Apply(ctx context.Context, batch []Request) error {
	if v.bound(batch) {
		return v.Store.Apply(ctx, batch)
	}
	copied := make([]Request, len(batch))
	for i := range batch {
		copied[i] = batch[i]
		copied[i].Charges = append([]Charge(nil), batch[i].Charges...)
		for k := range copied[i].Charges {
			c := &copied[i].Charges[k]
			c.Limit = c.Limit.In(v.mode)
		}
	}
	err := v.Store.Apply(ctx, copied)
	for i := range batch {
		batch[i].Err = copied[i].Err
	}
	return err
}

// bound reports whether all limits of a batch have the view's mode.
func (v *view) bound(batch []Request) bool {
	for i := range batch {
		for k := range batch[i].Charges {
			if batch[i].Charges[k].Limit.mode != v.mode {
				return false
			}
		}
	}
	return true
}
