package config

import (
	"net/netip"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/store"
)

// Policy is a named set of limits that apply to a request together, with the key and the cost of a request. Replay and the
// service decide by the same fields; replay ignores Failure.
type Policy struct {
	Name   string
	Key    fields.Template
	Cost   fields.Cost
	Limits []slidegate.Limit

	// Match selects the requests that the policy applies to where the server sees whole requests, in forward-auth and as a
	// proxy: those that match one of the patterns. Empty means every request.
	Match []Route
	// Overrides are other limits for some keys. The first whose key or pattern matches decides.
	Overrides []policy.Override
	// Plans are other limits for requests whose field PlanBy has their name: a header, a claim, a verified user, or the
	// policy's key. The first match decides, except for keys that have an override. Limits apply to requests without a plan, or
	// with one that is not listed.
	Plans  []policy.Plan
	PlanBy fields.Field
	// Allow lists clients that are admitted and charged nothing, Block clients that are refused immediately. Clients on both
	// lists are refused.
	Allow, Block policy.List
	// Penalty is how long a key is refused after a refusal by the limits; 0 means until the limits admit it again.
	Penalty time.Duration
	// Wait is how long a request may wait in line until the limits admit it; 0 means that it is refused at once.
	Wait time.Duration
	// Refusal is the texts of refusals by the limits. Empty fields are taken from the Service.
	Refusal httplimit.Refusal
	// Shadow policies count and report, but refuse nothing.
	Shadow bool
	// Failure is what decides when the store does not answer in time; 0 means the Service's Failure.
	Failure store.Mode
	// Notify lists thresholds of the limits, at which the service logs and counts a key. Limits that are equal have the same ones.
	Notify []policy.Threshold
}

// Service holds the settings of the server that are not policies.
type Service struct {
	Store          string         // a URL; empty means memory:
	StoreTimeout   time.Duration  // how long a decision may take; 0 means DefaultStoreTimeout
	Failure        store.Mode     // what decides when the store does not answer in time; 0 means store.FailLocal
	TrustedProxies []netip.Prefix // the proxies that are trusted to report a client's address; nil if not given
	// AddressGroups determines which addresses count as one client; the zero value means every IPv4 address, and every /64 of
	// IPv6.
	AddressGroups clientip.Grouping
	JWT           JWT    // how the tokens of requests are verified
	Default       string // the policy of clients that name none; empty means "default", or the only one
	// Refusal is the texts of refusals by limits, for policies without their own. Empty fields mean the default texts.
	Refusal httplimit.Refusal
}

// DefaultStoreTimeout is the deadline of a decision in files without one.
const DefaultStoreTimeout = 100 * time.Millisecond
