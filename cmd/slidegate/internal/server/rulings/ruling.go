package rulings

import (
	"encoding/json"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
)

// Kind is what a ruling does to a key.
type Kind string

// The kinds of rulings.
const (
	Block     Kind = "block"     // everything is refused
	Limits    Kind = "limits"    // other limits take the place of those that the key would face
	Unlimited Kind = "unlimited" // everything is admitted, and nothing is charged

	Clear    Kind = "clear"    // in the log alone: a ruling was ended
	Override Kind = "override" // to end one: Limits or Unlimited
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

// same reports whether two rulings are the same in all that they have.
func (r *Ruling) same(other *Ruling) bool {
	return r.Policy == other.Policy && r.Key == other.Key && string(r.Text()) == string(other.Text())
}

// Text returns the ruling as stores keep it.
func (r *Ruling) Text() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts and times, which Resolve has checked
	}
	return text
}

// Name returns what the ruling is about as stores keep it.
func (r *Ruling) Name() string {
	text, err := json.Marshal([2]string{r.Policy, r.Key})
	if err != nil {
		panic(err) // texts alone
	}
	return string(text)
}

// Policied returns the ruling as the engine takes it.
func (r *Ruling) Policied() (policy.Ruling, error) {
	made := policy.Ruling{Key: r.Key, Refused: r.Kind == Block, Unlimited: r.Kind == Unlimited, Until: r.Until}
	for _, text := range r.Limits {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			return made, err
		}
		made.Limits = append(made.Limits, limit)
	}
	return made, nil
}

// InForce reports whether the ruling has not ended.
func (r *Ruling) InForce(now time.Time) bool { return r.Until.IsZero() || now.Before(r.Until) }
