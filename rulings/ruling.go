package rulings

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// Kind is the effect of a ruling on a key.
type Kind string

// The kinds of rulings.
const (
	Block     Kind = "block"     // all requests are denied
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
	Key    string    `json:"key"`    // for Add, as people write it; in a List, as it is stored
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

// PolicyRuling returns the ruling in the engine's form.
func (r *Ruling) PolicyRuling() (policy.Ruling, error) {
	ruling := policy.Ruling{Key: r.Key, Refused: r.Kind == Block, Unlimited: r.Kind == Unlimited, Until: r.Until}
	for _, text := range r.Limits {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return ruling, err
		}
		ruling.Limits = append(ruling.Limits, limit)
	}
	return ruling, nil
}

// InForce reports whether the ruling has not ended.
func (r *Ruling) InForce(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }

// Effect describes what the ruling does in a few words: blocked, unlimited, or its limits.
func (r *Ruling) Effect() string {
	switch r.Kind {
	case Block:
		return "blocked"
	case Limits:
		return strings.Join(r.Limits, ", ")
	}
	return string(r.Kind)
}

// KeyHash returns what logs contain instead of a key: the first 16 hexadecimal digits of its SHA-256, the same in every process, so that
// the lines about a known key can be found. It does not hide a key that can be guessed, such as an address.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}
