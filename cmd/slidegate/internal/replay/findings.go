package replay

import "github.com/slidegate/slidegate/rule"

// Findings is the result of a replay. It consists of plain values that can be printed, drawn and written as JSON; times
// are in microseconds since the epoch, and durations in microseconds.
type Findings struct {
	Traffic     Traffic         `json:"traffic"`
	Outcome     Outcome         `json:"outcome"`                // the outcome of the replayed limits
	Policies    []PolicyOutcome `json:"policies,omitempty"`     // one per policy, if policies of a file were replayed
	Refused     *Profile        `json:"refused,omitempty"`      // the refused requests, if the log has their traits
	Timeline    Timeline        `json:"timeline"`               // the decisions of the replayed limits over time
	Compare     []Outcome       `json:"compare,omitempty"`      // one per algorithm, on the same traffic
	NotCompared []Omission      `json:"not_compared,omitempty"` // algorithms that do not support such limits, and why
	Sweep       *Sweep          `json:"sweep,omitempty"`
	Suggestion  *Suggestion     `json:"suggestion,omitempty"`
	Against     *Comparison     `json:"against,omitempty"`     // the comparison with other policies, if requested
	Interrupted bool            `json:"interrupted,omitempty"` // the traffic was not read to its end
}

// Traffic describes the replayed traffic.
type Traffic struct {
	Requests int64       `json:"requests"`
	Units    int64       `json:"units"` // the sum of all costs
	Keys     int64       `json:"keys"`
	From     rule.Micros `json:"from"` // the time of the earliest request
	To       rule.Micros `json:"to"`   // the time of the latest request
	Order    Order       `json:"order"`
}

// Order describes how far the traffic was out of order.
type Order struct {
	OutOfOrder int64       `json:"out_of_order"` // requests older than one read before them
	Furthest   rule.Micros `json:"furthest"`     // the largest time by which a request was late
	TooLate    int64       `json:"too_late"`     // requests that came too late to be sorted, and were decided as they came
}

// Outcome is the effect of one set of limits on the traffic.
type Outcome struct {
	Name     string         `json:"name"`   // in a comparison, the algorithm: "sliding-log"
	Limits   []LimitOutcome `json:"limits"` // one per limit
	Admitted int64          `json:"admitted"`
	Refused  int64          `json:"refused"`
	// UnitsAdmitted and UnitsRefused are the same in units.
	UnitsAdmitted int64        `json:"units_admitted"`
	UnitsRefused  int64        `json:"units_refused"`
	KeysTouched   int64        `json:"keys_touched"` // keys that were refused at least once
	TopRefused    []KeyOutcome `json:"top_refused"`  // the most refused keys, the worst first
	Lockout       Lockout      `json:"longest_lockout"`
}

// PolicyOutcome is the effect of one policy of a file. All counts are of requests.
type PolicyOutcome struct {
	Name       string `json:"name"`
	Shadow     bool   `json:"shadow,omitempty"` // its refusals are counted only here
	Requests   int64  `json:"requests"`         // requests that it applies to
	Refused    int64  `json:"refused"`          // requests that its limits or its block list refused
	BlockList  int64  `json:"block_list"`
	AllowList  int64  `json:"allow_list"`
	Unlimited  int64  `json:"unlimited"`  // requests of keys whose override has no limits, or with a plan that has none
	Overridden int64  `json:"overridden"` // requests of keys whose override has other limits, or with a plan that has them
}

// LimitOutcome is the effect of one limit.
type LimitOutcome struct {
	Policy   string      `json:"policy,omitempty"`   // the policy of the limit
	Override string      `json:"override,omitempty"` // the key or pattern of its override
	Plan     string      `json:"plan,omitempty"`     // the name of its plan
	Shadow   bool        `json:"shadow,omitempty"`
	Limit    string      `json:"limit"` // as ParseLimit reads it
	Quota    int64       `json:"quota"`
	Window   rule.Micros `json:"window"`             // 0 with Calendar
	Calendar string      `json:"calendar,omitempty"` // the period instead of Window: day, week, month or year
	Zone     string      `json:"zone,omitempty"`     // the time zone of Calendar
	Refused  int64       `json:"refused"`            // requests that this limit refused
	Highest  Highest     `json:"highest"`            // the most units admitted in any window
	// WrongAdmitted and WrongRefused count the decisions that an exact log of the same quota and window made the other way
	// on the same traffic.
	WrongAdmitted int64 `json:"wrong_admitted"`
	WrongRefused  int64 `json:"wrong_refused"`
	LiveKeys      int64 `json:"live_keys"`   // the most keys with a live state at any time
	StateBytes    int64 `json:"state_bytes"` // the most bytes of such states at any time, without the keys
}

// Highest is the window in which one key was admitted the most units.
type Highest struct {
	Units int64       `json:"units"`
	Key   string      `json:"key"`
	At    rule.Micros `json:"at"` // the window's end
}

// KeyOutcome is the effect on one key.
type KeyOutcome struct {
	Policy   string      `json:"policy,omitempty"`
	Key      string      `json:"key"`
	Requests int64       `json:"requests"`
	Refused  int64       `json:"refused"`
	Lockout  rule.Micros `json:"longest_lockout"`
	Profile  *Profile    `json:"profile,omitempty"` // its refused requests, if the log has their traits
}

// Profile describes some refused requests by their most frequent values, the most frequent first. A list is empty if the
// log does not have the trait. The counts are exact unless there are very many different values.
type Profile struct {
	Requests int64   `json:"requests"` // the requests counted
	Methods  []Value `json:"methods,omitempty"`
	Paths    []Value `json:"paths,omitempty"` // without their queries
	Agents   []Value `json:"agents,omitempty"`
	Statuses []Value `json:"statuses,omitempty"`
}

// Value is the number of requests with a value; "" counts the requests without one.
type Value struct {
	Value    string `json:"value"`
	Requests int64  `json:"requests"`
}

// Lockout is the longest time for which a key was refused: from a refusal to its next admission, or to the time at
// which it would have been admitted, if that is earlier.
type Lockout struct {
	Policy string      `json:"policy,omitempty"`
	Key    string      `json:"key"`
	From   rule.Micros `json:"from"`
	Length rule.Micros `json:"length"`
	Ended  bool        `json:"ended"` // whether it ended before the traffic did
}

// Timeline counts requests over time. There are at most a few hundred buckets, however long the traffic is.
type Timeline struct {
	From    rule.Micros `json:"from"`  // the start of the first bucket
	Width   rule.Micros `json:"width"` // the width of each bucket
	Buckets []Bucket    `json:"buckets"`
}

// Bucket is one interval of a Timeline.
type Bucket struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
}

// Sweep is the effect of other quotas of the first limit.
type Sweep struct {
	Points []SweepPoint `json:"points"` // by ascending quota
	Knee   int          `json:"knee"`   // the index of the point after which a larger quota gains little; -1 if there is none
}

// SweepPoint is one quota.
type SweepPoint struct {
	Quota       int64 `json:"quota"`
	Admitted    int64 `json:"admitted"`
	Refused     int64 `json:"refused"`
	KeysTouched int64 `json:"keys_touched"`
}

// Suggestion is the smallest quota of the first limit that touches no more than a share of the keys.
type Suggestion struct {
	Percent float64 `json:"percent"` // the share of the keys that may be touched
	Outcome Outcome `json:"outcome"` // the outcome of the suggested limit alone
	// Whole is the outcome with the suggested limit instead of the first one, together with the other limits, the
	// overrides and the lists; nil if there are none.
	Whole *Outcome `json:"whole,omitempty"`
}

// Effective returns the outcome with the suggested limit instead of the first one.
func (s *Suggestion) Effective() *Outcome {
	if s.Whole != nil {
		return s.Whole
	}
	return &s.Outcome
}

// Comparison is the effect of other policies on the same traffic, and the difference. A request that no policy applies to
// is admitted.
type Comparison struct {
	Outcome       Outcome         `json:"outcome"` // the outcome of the other policies
	Policies      []PolicyOutcome `json:"policies"`
	NewlyRefused  Change          `json:"newly_refused"`  // requests that the replayed policies refuse and the others admit
	NewlyAdmitted Change          `json:"newly_admitted"` // requests that the others refuse and the replayed policies admit
}

// Change counts the requests that one set of policies refuses and another does not.
type Change struct {
	Requests int64       `json:"requests"`
	Keys     int64       `json:"keys"`          // under the policies that refuse them
	Top      []KeyChange `json:"top,omitempty"` // the keys with the most of them
	Profile  *Profile    `json:"profile,omitempty"`
}

// KeyChange is the number of requests of one key that a Change counts.
type KeyChange struct {
	Policy   string   `json:"policy"` // the policy that refuses them
	Key      string   `json:"key"`
	Requests int64    `json:"requests"`
	Profile  *Profile `json:"profile,omitempty"`
}

// Omission is an algorithm left out of a comparison.
type Omission struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}
