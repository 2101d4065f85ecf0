package rulings

import (
	"context"
	"errors"
	"fmt"
)

// The bounds of what is kept. All rulings are in the memory of every instance.
const (
	MaxRulings = 10_000
	MaxLog     = 1_000
)

// Keeper keeps rulings and the log of their changes, where all instances that share a store find them. It must be safe for use by
// several instances at once.
type Keeper interface {
	// Load returns all rulings, also those that have ended, and their version, which is another one after every change. Known is the
	// version that the caller has: if it is still that one, only the version is returned.
	Load(ctx context.Context, known int64) (all []Ruling, version int64, err error)
	// Apply makes a change, adds it to the log, and removes the rulings that are stale, if they are still as given: all of it or
	// nothing. The change is a ruling, or of the kind Clear. It returns an error that wraps ErrFull if there is no room, and ErrNone
	// if there is nothing to clear.
	Apply(ctx context.Context, change Ruling, stale []Ruling) error
	// Log returns the last n changes, the newest first.
	Log(ctx context.Context, n int) ([]Ruling, error)
}

var (
	// ErrNone is wrapped by the error of a change that ends a ruling which is not there.
	ErrNone = errors.New("there is no ruling about this key")
	// ErrFull is wrapped by the error of a change for which there is no room.
	ErrFull = fmt.Errorf("there are %d rulings already; end some of them, or write lists and overrides into the file", MaxRulings)
)
