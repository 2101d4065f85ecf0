// Package ruled applies rulings to sets of policies: it is what the middleware and the service do with the rulings of a book.
package ruled

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/rulings"
)

// Follow makes a set of policies follow a book until unfollow is called.
func Follow(book *rulings.Book, set *engine.Set) (unfollow func()) {
	return book.Follow(func(all []rulings.Ruling) error { return Apply(set, all) }, func(r *rulings.Ruling) (known bool, err error) {
		index := slices.Index(set.Names(), r.Policy)
		if index < 0 {
			return false, nil
		}
		return true, Resolve(set, index, r)
	})
}

// Apply puts the rulings about the policies of a set into force, in place of those before. Those that a policy does not accept are left
// out and returned as errors.
func Apply(set *engine.Set, all []rulings.Ruling) error {
	byPolicy := map[string][]engine.Ruling{}
	var errs []error
	for i := range all {
		if !InForce(&all[i]) {
			continue
		}
		ruling, err := Parse(&all[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("policy %q: ruling: %w", all[i].Policy, err))
			continue
		}
		byPolicy[all[i].Policy] = append(byPolicy[all[i].Policy], ruling)
	}
	for i, name := range set.Names() {
		given := byPolicy[name]
		if set.SetRulings(i, given) == nil {
			continue // the usual case, in which each is compiled once
		}
		given = slices.DeleteFunc(given, func(r engine.Ruling) bool {
			err := set.CheckRuling(i, r)
			errs = append(errs, err)
			return err != nil
		})
		_ = set.SetRulings(i, given) // all were checked
	}
	return errors.Join(errs...)
}

// Check returns an error if the policy at an index of the set cannot apply a ruling.
func Check(set *engine.Set, index int, r *rulings.Ruling) error {
	ruling, err := Parse(r)
	if err == nil {
		err = set.CheckRuling(index, ruling)
	}
	return err
}

// Parse returns a ruling in the form of the engine.
func Parse(r *rulings.Ruling) (engine.Ruling, error) {
	ruling := engine.Ruling{Key: r.Key, Refused: r.Kind == rulings.Block, Unlimited: r.Kind == rulings.Unlimited, Until: r.Until}
	for _, text := range r.Limits {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return ruling, err
		}
		ruling.Limits = append(ruling.Limits, limit)
	}
	return ruling, nil
}

// Resolve checks a new ruling about a policy, and checks its key. For the kinds Clear and Reset, it does only
// the latter. The error is a rulings.FieldError.
func Resolve(set *engine.Set, index int, r *rulings.Ruling) error {
	read, err := set.ReadKey(index, r.Key)
	if err != nil {
		return &rulings.FieldError{Field: "key", Err: err}
	}
	if r.Key = read.String(); r.Kind == rulings.Clear || r.Kind == rulings.Reset {
		return nil
	}
	if err := Check(set, index, r); err != nil {
		return &rulings.FieldError{Field: "limits", Err: err}
	}
	return nil
}

// InForce reports whether a ruling has not ended.
func InForce(r *rulings.Ruling) bool { return r.Until.IsZero() || time.Now().Before(r.Until) }

// Find returns the ruling about a key that is in force, or nil if there is none.
func Find(all []rulings.Ruling, policy, key string) *rulings.Ruling {
	for i := range all {
		if r := &all[i]; r.Key == key && r.Policy == policy && InForce(r) {
			return r
		}
	}
	return nil
}

// Effect describes what a ruling does in a few words: blocked, unlimited, or its limits.
func Effect(r *rulings.Ruling) string {
	switch r.Kind {
	case rulings.Block:
		return "blocked"
	case rulings.Limits:
		return strings.Join(r.Limits, ", ")
	}
	return fmt.Sprint(r.Kind)
}
