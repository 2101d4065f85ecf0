package rulings

import (
	"encoding/json"
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

	Clear    Kind = "clear"    // in the log only: a ruling was ended
	Override Kind = "override" // only to end one: Limits or Unlimited
)

// Ruling is an operator's decision about one key of a policy. A key has at most one: a new ruling replaces the old.
type Ruling struct {
	Policy string    `json:"policy"` // its name, or EnvoyPrefix and a domain
	Key    string    `json:"key"`    // as the policy makes it; for an Envoy domain, the text of the descriptor
	Kind   Kind      `json:"kind"`
	Limits []string  `json:"limits,omitempty"` // for the kind Limits, in the format of slidegate.ParseLimit
	Until  time.Time `json:"until,omitzero"`   // when it ends; zero means never
	Who    string    `json:"who"`              // who decided it
	Why    string    `json:"why"`
	At     time.Time `json:"at"` // when it was decided
}

// EnvoyPrefix precedes the domain in Ruling.Policy if the ruling is about an Envoy descriptor. No policy name begins
// with it.
const EnvoyPrefix = "envoy:"

// same reports whether two rulings are equal in all fields.
func (r *Ruling) same(other *Ruling) bool {
	return r.Policy == other.Policy && r.Key == other.Key && string(r.Text()) == string(other.Text())
}

// Text returns the ruling as stores keep it.
func (r *Ruling) Text() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail for strings and times that Resolve has checked
	}
	return text
}

// Name returns the policy and key of the ruling, as stores keep them.
func (r *Ruling) Name() string {
	text, err := json.Marshal([2]string{r.Policy, r.Key})
	if err != nil {
		panic(err) // cannot fail for strings
	}
	return string(text)
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
