package rulings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Kind is the effect of a ruling on a key.
type Kind string

// The kinds of rulings.
const (
	Block     Kind = "block"     // all requests are refused
	Limits    Kind = "limits"    // other limits replace those that would apply to the key
	Unlimited Kind = "unlimited" // all requests are admitted, and nothing is charged
)

// The kinds of other changes, which are in the log only.
const (
	Clear Kind = "clear" // a ruling was ended
	Reset Kind = "reset" // the usage of a key was reset
)

// Ruling is an operator's decision about one key of a policy, or another change in the log. A key has at most one: a new ruling replaces
// the old.
type Ruling struct {
	Policy string    `json:"policy"` // its name
	Key    string    `json:"key"`    // as requests have it; see policy.Override
	Kind   Kind      `json:"kind"`
	Limits []string  `json:"limits,omitempty"` // for the kind Limits, in the format of slidegate.ParseLimit
	Until  time.Time `json:"until,omitzero"`   // when it ends, by the clocks of the processes; zero means never
	Who    string    `json:"who"`              // who decided it
	Why    string    `json:"why"`              // free text
	At     time.Time `json:"at"`               // when it was decided; set by the Book
}

// same reports whether two entries of a log are the same change.
func (r *Ruling) same(other *Ruling) bool {
	return r.At.Equal(other.At) && r.Kind == other.Kind && r.Policy == other.Policy && r.Key == other.Key && r.Who == other.Who && r.Why == other.Why &&
		r.Until.Equal(other.Until) && slices.Equal(r.Limits, other.Limits)
}

// inForce reports whether the ruling has not ended.
func (r *Ruling) inForce(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }

// The bounds of a ruling.
const (
	maxKey    = 1024 // bytes
	maxWho    = 128
	maxWhy    = 512
	maxLimits = 8
	maxFor    = 100 * 365 * 24 * time.Hour
)

// FieldError is an error about a field of a change: policy, key, kind, limits, until, who or why.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// check returns a FieldError for a ruling that is invalid under any policy.
func (r *Ruling) check(now time.Time) error {
	if err := r.checkNames(); err != nil {
		return err
	}
	switch {
	case r.Kind != Block && r.Kind != Limits && r.Kind != Unlimited:
		return fieldError("kind", "must be block, limits or unlimited, not %q", r.Kind)
	case r.Kind == Limits && len(r.Limits) == 0:
		return fieldError("limits", "is missing; give at least one, such as 1000/1m")
	case r.Kind != Limits && len(r.Limits) > 0:
		return fieldError("limits", "is only for the kind limits, not for %s; leave it out", r.Kind)
	case len(r.Limits) > maxLimits:
		return fieldError("limits", "has %d limits; give at most %d", len(r.Limits), maxLimits)
	case r.Until.IsZero():
	case !r.Until.After(now):
		return fieldError("until", "is in the past: it is %s now", now.UTC().Format(time.RFC3339))
	case r.Until.Sub(now) > maxFor:
		return fieldError("until", "is more than 100 years away; leave it out for a ruling without an end")
	}
	return nil
}

// checkNames returns a FieldError for an invalid key, who or why of a change.
func (r *Ruling) checkNames() error {
	switch {
	case len(r.Key) > maxKey:
		return fieldError("key", "has %d bytes; the maximum is %d", len(r.Key), maxKey)
	case !utf8.ValidString(r.Key):
		return fieldError("key", "is not valid UTF-8")
	case r.Who == "":
		return fieldError("who", "is missing; give your name, for the log")
	}
	if err := checkText("who", r.Who, maxWho); err != nil {
		return err
	}
	return checkText("why", r.Why, maxWhy)
}

func checkText(field, text string, maxBytes int) error {
	switch {
	case len(text) > maxBytes:
		return fieldError(field, "has %d bytes; the maximum is %d", len(text), maxBytes)
	case !utf8.ValidString(text), strings.ContainsFunc(text, unicode.IsControl):
		return &FieldError{Field: field, Err: errors.New("must be one line of printable text")}
	}
	return nil
}
