package rulings

import "time"

// Kind is what a ruling does to a key.
type Kind string

// The kinds of rulings.
const (
	Block     Kind = "block"     // everything is refused
	Limits    Kind = "limits"    // other limits take the place of those that the key would face
	Unlimited Kind = "unlimited" // everything is admitted, and nothing is charged
)

// Ruling is what an operator decided about one key of a policy. A key has at most one: a new one takes the place of the old.
type Ruling struct {
	Policy string    `json:"policy"` // its name, or EnvoyPrefix and a domain
	Key    string    `json:"key"`    // as the policy makes it; for a domain of Envoy, the text of the descriptor
	Kind   Kind      `json:"kind"`
	Limits []string  `json:"limits,omitempty"` // of the kind Limits, as slidegate.ParseLimit reads them
	Until  time.Time `json:"until,omitzero"`   // when it ends; zero if it does not
	Who    string    `json:"who"`              // who decided it
	Why    string    `json:"why"`
	At     time.Time `json:"at"` // when it was decided
}

// EnvoyPrefix stands before the domain in Ruling.Policy where it is about a descriptor of Envoy. No policy is called so.
const EnvoyPrefix = "envoy:"

// InForce reports whether the ruling has not ended.
func (r *Ruling) InForce(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }
