package replay

import "github.com/slidegate/slidegate/rule"

// Findings are everything that a replay found out. They are plain values, made to be printed, drawn and written as JSON;
// times are in microseconds, since the epoch or as lengths.
type Findings struct {
	Traffic     Traffic         `json:"traffic"`
	Outcome     Outcome         `json:"outcome"`                // of the limits that were asked for
	Policies    []PolicyOutcome `json:"policies,omitempty"`     // what each policy did, where those of a file were replayed
	Denied      *Profile        `json:"denied,omitempty"`       // what the denied requests were, if the log tells
	Timeline    Timeline        `json:"timeline"`               // of the same
	Worst       []Trail         `json:"worst,omitempty"`        // the keys that were denied most, if trails were asked for
	Compare     []Outcome       `json:"compare,omitempty"`      // one an algorithm, on the same traffic
	NotCompared []Omission      `json:"not_compared,omitempty"` // algorithms that cannot count such limits, and why
	Sweep       *Sweep          `json:"sweep,omitempty"`
	Suggestion  *Suggestion     `json:"suggestion,omitempty"`
	Against     *Against        `json:"against,omitempty"`     // what other policies did, if some were compared with
	Interrupted bool            `json:"interrupted,omitempty"` // the traffic was not read to its end
}

// Traffic is what the limits were held against.
type Traffic struct {
	Requests int64       `json:"requests"`
	Units    int64       `json:"units"` // the sum of all costs
	Keys     int64       `json:"keys"`
	From     rule.Micros `json:"from"` // the time of the earliest request
	To       rule.Micros `json:"to"`   // and of the latest
	Order    Order       `json:"order"`
}

// Order is how far the traffic was from being sorted by time.
type Order struct {
	OutOfOrder int64       `json:"out_of_order"` // requests older than one read before them
	Furthest   rule.Micros `json:"furthest"`     // the most that one was older
	TooLate    int64       `json:"too_late"`     // those that came too late to be sorted in, and were decided as they came
}

// Outcome is what one set of limits did to the traffic.
type Outcome struct {
	Name     string         `json:"name"`   // in a comparison, what is compared: "sliding-log"
	Limits   []LimitOutcome `json:"limits"` // one a limit
	Admitted int64          `json:"admitted"`
	Denied   int64          `json:"denied"`
	// UnitsAdmitted and UnitsDenied are the same in units.
	UnitsAdmitted int64        `json:"units_admitted"`
	UnitsDenied   int64        `json:"units_denied"`
	KeysTouched   int64        `json:"keys_touched"` // keys that were denied at least once
	TopDenied     []KeyOutcome `json:"top_denied"`   // the keys denied most often, the worst first
	Lockout       Lockout      `json:"longest_lockout"`
}

// PolicyOutcome is what one policy of a file had to do with it. The counts are of requests.
type PolicyOutcome struct {
	Name       string `json:"name"`
	Shadow     bool   `json:"shadow,omitempty"` // what it denies is counted here alone
	Requests   int64  `json:"requests"`         // that face it
	Denied     int64  `json:"denied"`           // by its limits or its deny list
	DenyList   int64  `json:"deny_list"`
	AllowList  int64  `json:"allow_list"`
	Unlimited  int64  `json:"unlimited"`  // of keys whose override, or requests whose plan, has no limits
	Overridden int64  `json:"overridden"` // of keys whose override, or requests whose plan, has other limits
}

// LimitOutcome is what one limit had to do with it.
type LimitOutcome struct {
	Policy   string      `json:"policy,omitempty"`   // that it is of
	Override string      `json:"override,omitempty"` // the key or pattern that it is for
	Plan     string      `json:"plan,omitempty"`     // the name of the plan that it is for
	Shadow   bool        `json:"shadow,omitempty"`
	Limit    string      `json:"limit"` // as ParseLimit reads it
	Quota    int64       `json:"quota"`
	Window   rule.Micros `json:"window"`             // 0 with Calendar
	Calendar string      `json:"calendar,omitempty"` // the period in place of Window: day, week, month or year
	Zone     string      `json:"zone,omitempty"`     // of Calendar
	Denied   int64       `json:"denied"`             // requests that this limit did not admit
	Highest  Highest     `json:"highest"`            // the most units admitted in any window
	// WrongAdmitted and WrongDenied count the decisions that an exact log of the same quota and window made the other way
	// on the same traffic.
	WrongAdmitted int64 `json:"wrong_admitted"`
	WrongDenied   int64 `json:"wrong_denied"`
	LiveKeys      int64 `json:"live_keys"`   // the most keys whose state mattered at one time
	StateBytes    int64 `json:"state_bytes"` // the most bytes of such states at one time, without the keys' own
}

// Highest is a window in which one key was admitted the most units.
type Highest struct {
	Units int64       `json:"units"`
	Key   string      `json:"key"`
	At    rule.Micros `json:"at"` // the window's end
}

// KeyOutcome is what happened to one key.
type KeyOutcome struct {
	Policy   string      `json:"policy,omitempty"`
	Key      string      `json:"key"`
	Requests int64       `json:"requests"`
	Denied   int64       `json:"denied"`
	Lockout  rule.Micros `json:"longest_lockout"`
	Profile  *Profile    `json:"profile,omitempty"` // what its denied requests were, if the log tells
}

// Profile is what some denied requests were: the values that were the most frequent, the first before the others. A list is empty
// if the log does not have such a thing. The counts are exact unless there are very many different values.
type Profile struct {
	Requests int64   `json:"requests"` // that the counts are of
	Methods  []Value `json:"methods,omitempty"`
	Paths    []Value `json:"paths,omitempty"` // without their queries
	Agents   []Value `json:"agents,omitempty"`
	Statuses []Value `json:"statuses,omitempty"`
}

// Value is how many requests had a value; the empty one is that of those that had none.
type Value struct {
	Value    string `json:"value"`
	Requests int64  `json:"requests"`
}

// Lockout is the longest time for which a key could not come in: from a refusal to its next admission, or to the moment at
// which it would have been admitted if it did not ask so soon.
type Lockout struct {
	Policy string      `json:"policy,omitempty"`
	Key    string      `json:"key"`
	From   rule.Micros `json:"from"`
	Length rule.Micros `json:"length"`
	Ended  bool        `json:"ended"` // before the traffic did
}

// Timeline counts requests by when they came. There are at most a few hundred buckets, however long the traffic is.
type Timeline struct {
	From    rule.Micros `json:"from"`  // the start of the first bucket
	Width   rule.Micros `json:"width"` // of each
	Buckets []Bucket    `json:"buckets"`
}

// Bucket is one stretch of a Timeline.
type Bucket struct {
	Admitted int64 `json:"admitted"`
	Denied   int64 `json:"denied"`
}

// Trail is the exact count of one key over time, held against the first limit: in each bucket of the Timeline the most
// units that the window before any moment in it held.
type Trail struct {
	Key      string  `json:"key"`
	Requests int64   `json:"requests"`
	Denied   int64   `json:"denied"`
	Asked    []int64 `json:"asked"`    // all that was asked for
	Admitted []int64 `json:"admitted"` // what was admitted
}

// Sweep is what other quotas of the first limit would have done.
type Sweep struct {
	Points []SweepPoint `json:"points"` // by rising quota
	Knee   int          `json:"knee"`   // the index of the point after which a larger quota gains little; -1 if there is none
}

// SweepPoint is one quota.
type SweepPoint struct {
	Quota       int64 `json:"quota"`
	Admitted    int64 `json:"admitted"`
	Denied      int64 `json:"denied"`
	KeysTouched int64 `json:"keys_touched"`
}

// Suggestion is the smallest quota of the first limit that touches no more than a share of the keys.
type Suggestion struct {
	Percent float64 `json:"percent"` // of the keys that may be touched
	Outcome Outcome `json:"outcome"` // of the suggested limit by itself
	// Whole is the outcome of the suggested limit in the place of the first one, beside the other limits, the overrides and
	// the lists; nil if there are none.
	Whole *Outcome `json:"whole,omitempty"`
}

// Promise returns what the suggested limit does where it takes the place of the first one.
func (s *Suggestion) Promise() *Outcome {
	if s.Whole != nil {
		return s.Whole
	}
	return &s.Outcome
}

// Against is what other policies did to the same traffic, and what differs. A request that faces no policy is admitted.
type Against struct {
	Outcome       Outcome         `json:"outcome"` // of the other policies
	Policies      []PolicyOutcome `json:"policies"`
	NewlyDenied   Change          `json:"newly_denied"`   // by the policies that were asked for, and not by the others
	NewlyAdmitted Change          `json:"newly_admitted"` // the other way round
}

// Change is the requests that one set of policies denies and another does not.
type Change struct {
	Requests int64       `json:"requests"`
	Keys     int64       `json:"keys"`          // of the policies that deny them
	Top      []KeyChange `json:"top,omitempty"` // the keys with the most of them
	Profile  *Profile    `json:"profile,omitempty"`
}

// KeyChange is how many of such requests one key had.
type KeyChange struct {
	at       place
	Policy   string   `json:"policy"` // that denies them
	Key      string   `json:"key"`
	Requests int64    `json:"requests"`
	Profile  *Profile `json:"profile,omitempty"`
}

// Omission is an algorithm left out of a comparison.
type Omission struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}
