package config

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// Policy is a named set of limits that apply to a request together, with the key and the cost of a request. Replay and the
// service decide by the same fields; replay ignores Failure and Candidate.
type Policy struct {
	Name   string
	Key    Template
	Cost   Cost
	Limits []slidegate.Limit

	// Match selects the requests that the policy applies to where the server sees whole requests, in forward-auth and as a
	// proxy: those that match one of the patterns. Empty means every request.
	Match []Route
	// Overrides are other limits for some keys. The first whose key or pattern matches decides.
	Overrides []Override
	// Plans are other limits for requests whose field PlanBy has their name: a header, a claim, a verified user, or the
	// policy's key. The first match decides, except for keys that have an override. Limits apply to requests without a plan, or
	// with one that is not listed.
	Plans  []Plan
	PlanBy Field
	// Allow lists clients that are admitted and charged nothing, Deny clients that are refused immediately. Clients on both
	// lists are refused.
	Allow, Deny List
	// Penalty is how long a key is refused after a refusal by the limits; 0 means until the limits admit it again.
	Penalty time.Duration
	// Refusal is the texts of refusals by the limits. Empty fields are taken from the Service.
	Refusal Refusal
	// Shadow policies count and report, but refuse nothing.
	Shadow bool
	// Failure is what happens when the store does not answer in time: FailOpen, FailClosed, FailLocal or FailOptimistic.
	// Empty means the Service's Failure.
	Failure string
	// Candidate are limits that are counted separately from the live ones, and only reported.
	Candidate []slidegate.Limit
}

// Override gives some keys of a policy other limits, or none.
type Override = policy.Override

// List is a list of clients, by their address or by their key.
type List = policy.List

// Refusal replaces the default texts of refusals by limits.
type Refusal = httplimit.Refusal

// Service holds the settings of the server that are not policies.
type Service struct {
	Store          string         // a URL; empty means memory:
	StoreTimeout   time.Duration  // how long a decision may take; 0 means DefaultStoreTimeout
	Failure        string         // FailOpen, FailClosed, FailLocal or FailOptimistic; empty means FailOpen
	Optimism       int64          // how many units of a key FailOptimistic admits in each process; 0 means policy.DefaultOptimism
	TrustedProxies []netip.Prefix // the proxies that are trusted to report a client's address; nil if not given
	// AddressGroups determines which addresses count as one client; the zero value means every IPv4 address, and every /64 of
	// IPv6.
	AddressGroups clientip.Grouping
	JWT           JWT    // how the tokens of requests are verified
	Default       string // the policy of clients that name none; empty means "default", or the only one
	// Refusal is the texts of refusals by limits, for policies without their own. Empty fields mean the default texts.
	Refusal Refusal
}

// Failure modes: what happens when the store does not answer in time.
const (
	FailOpen       = "open"       // requests are admitted
	FailClosed     = "closed"     // requests are refused
	FailLocal      = "local"      // the server counts on its own
	FailOptimistic = "optimistic" // a few units of each key are admitted, and charged when the store is back
)

// failures are the failure modes, in the order in which they are listed.
var failures = []string{FailOpen, FailClosed, FailLocal, FailOptimistic}

// DefaultStoreTimeout is the deadline of a decision in files without one.
const DefaultStoreTimeout = 100 * time.Millisecond
