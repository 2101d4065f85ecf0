package config

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// Policy is a named set of limits that a request faces all at once, and how to find the key and the cost of a request.
// Replay and the service decide by the same fields; replay does not look at Failure and Candidate.
type Policy struct {
	Name   string
	Key    Template
	Cost   Cost
	Limits []slidegate.Limit

	// Match is which requests face the policy where the server sees whole requests, in forward-auth and as a proxy: those that one
	// of the patterns is for. Empty is every request.
	Match []Route
	// Overrides are other limits for some keys. The first whose key or pattern fits decides.
	Overrides []Override
	// Plans are other limits for requests whose field PlanBy has their name: a header, a claim, a verified user, or the policy's key. The first
	// that fits decides, but for keys that have an override. Requests without a plan, or with one that is not listed, have Limits.
	Plans  []Plan
	PlanBy Field
	// Allow are clients that are let through and charged nothing, Deny those that are refused at once. Who is on both
	// lists is refused.
	Allow, Deny List
	// Penalty is for how long a key is kept out after a refusal by the limits; 0 means until there is room again.
	Penalty time.Duration
	// Refusal is what clients are told when the limits refuse a request. What it leaves empty is as the Service has it.
	Refusal Refusal
	// Shadow policies count and report, and refuse nobody.
	Shadow bool
	// Failure is what happens when the store does not answer in time: FailOpen, FailClosed, FailLocal or FailOptimistic.
	// Empty means what the Service says.
	Failure string
	// Candidate are limits that are counted beside the live ones, apart from them, and only reported.
	Candidate []slidegate.Limit
}

// Override gives some keys of a policy other limits, or none.
type Override = policy.Override

// List is a list of clients, by their address or by their key.
type List = policy.List

// Refusal is what clients are told when limits refuse a request, in place of the usual words.
type Refusal = httplimit.Refusal

// Service is what the server needs to know besides the policies.
type Service struct {
	Store          string         // a URL; empty means memory:
	StoreTimeout   time.Duration  // how long a decision may take; 0 means DefaultStoreTimeout
	Failure        string         // FailOpen, FailClosed, FailLocal or FailOptimistic; empty means FailOpen
	Optimism       int64          // how many units of a key FailOptimistic admits in each process; 0 means policy.DefaultOptimism
	TrustedProxies []netip.Prefix // the proxies whose word on a client's address is taken; nil if the file does not say
	// AddressGroups is which addresses are one client; the zero value is every IPv4 address, and every /64 of IPv6.
	AddressGroups clientip.Grouping
	JWT           JWT    // how the tokens of requests are verified
	Default       string // the policy when a client names none; empty means "default", or the only one
	// Refusal is what clients are told when limits refuse a request, where a policy does not say. Empty fields are as usual.
	Refusal Refusal
}

// What happens when the store does not answer in time.
const (
	FailOpen       = "open"       // requests are let through
	FailClosed     = "closed"     // requests are refused
	FailLocal      = "local"      // the server counts by itself
	FailOptimistic = "optimistic" // a few units of each key are admitted, and charged when the store is back
)

// failures are the ways to fail, in the order in which they are listed.
var failures = []string{FailOpen, FailClosed, FailLocal, FailOptimistic}

// DefaultStoreTimeout is the deadline of a decision in files that give none.
const DefaultStoreTimeout = 100 * time.Millisecond
