package rulings

import (
	"context"
	"errors"
	"fmt"
)

// The bounds on what is stored. All rulings are in the memory of every instance.
const (
	MaxRulings = 10_000
	MaxLog     = 1_000
)

// Keeper stores rulings and the log of their changes, where all instances that share a store find them. It must be safe
// for use by several instances concurrently.
type Keeper interface {
	// Load returns all rulings, including those that have ended, and their version, which differs after every change.
	// Known is the version that the caller has: if it is still current, only the version is returned.
	Load(ctx context.Context, known int64) (all []Ruling, version int64, err error)
	// Apply makes a change, adds it to the log, and removes the stale rulings that are still as given, all or nothing.
	// The change is a ruling, or has the kind Clear. The error wraps ErrFull if there is no capacity, and ErrNone if
	// there is nothing to clear.
	Apply(ctx context.Context, change Ruling, stale []Ruling) error
	// Log returns the last n changes, newest first.
	Log(ctx context.Context, n int) ([]Ruling, error)
}

var (
	// ErrNone is wrapped by the error of a change that ends a ruling that does not exist.
	ErrNone = errors.New("there is no ruling about this key")
	// ErrFull is wrapped by the error of a change for which there is no capacity.
	ErrFull = fmt.Errorf("there are already %d rulings; end some of them, or use lists and overrides in the file", MaxRulings)
)
