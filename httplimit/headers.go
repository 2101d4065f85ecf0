package httplimit

import "github.com/slidegate/slidegate/internal/reply"

// Headers is the dialect in which a response reports what is left.
type Headers = reply.Dialect

// The dialects. Waiting times are always in whole seconds, rounded up.
const (
	// HeadersIETF are RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11, one item per limit:
	//	RateLimit-Policy: "api";q=100;w=60, "api/slots";q=5;qu="concurrent-requests"
	//	RateLimit: "api";r=42;t=18, "api/slots";r=4
	HeadersIETF = reply.IETF
	// HeadersDraft03 are RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, in seconds from now, of the limit that
	// decided.
	HeadersDraft03 = reply.Draft03
	// HeadersX are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is a Unix time in seconds.
	HeadersX = reply.X
	// HeadersXDelta are the same with X-RateLimit-Reset in seconds from now.
	HeadersXDelta = reply.XDelta
	// HeadersNone writes only Retry-After, and only with a refusal.
	HeadersNone = reply.None
)

// Refusal replaces the default texts and status of a policy's refusals by its limits. An empty field keeps the default. It does not apply
// to clients on a block list, to requests that could not be decided, or to requests that are larger than the quota: its texts
// would not be true of them. Options.Refuse writes its own status.
type Refusal struct {
	// Type is the type of the problem document (RFC 9457): an absolute URI, which should lead to a page that explains it.
	Type string
	// Title is its title, the same for all refusals of the type. In BodyJSON it is the value of "error".
	Title string
	// Detail says what happened and what to do; it is all of BodyText. In it, {retry_after} is the number of seconds until the
	// request is admitted, {limit} is the limit that refused, and {policy} its policy; {{ and }} are braces.
	Detail string
	// Status is the status: 429, which is the default, 402 for a budget that can be extended by paying, or 403. Clients that retry only
	// after a 429 do not retry after the others, although these have Retry-After too.
	Status int
}
