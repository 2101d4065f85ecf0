package httplimit

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Headers is how a response reports what is left.
type Headers uint8

// The dialects. A time to wait is always in whole seconds, rounded up.
const (
	// HeadersIETF are RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11, one item per limit:
	//	RateLimit-Policy: "api";q=100;w=60, "api/slots";q=5;qu="concurrent-requests"
	//	RateLimit: "api";r=42;t=18, "api/slots";r=4
	HeadersIETF Headers = iota
	// HeadersDraft03 are RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, in seconds from now, of the limit that
	// decided.
	HeadersDraft03
	// HeadersX are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is a Unix time in seconds.
	HeadersX
	// HeadersXDelta are the same with X-RateLimit-Reset in seconds from now.
	HeadersXDelta
	// HeadersNone writes only Retry-After, with a refusal.
	HeadersNone
	dialects
)

// sfMax is the largest integer of a structured field.
const sfMax = 999_999_999_999_999

// undecided are the flags of a decision that no limit made: there is nothing to say about what is left.
const undecided = rule.FallbackOpen | rule.FallbackClosed

// HeaderItem is a limit as header fields write it, prepared once by NewHeaderItem or HeaderItems. It is safe for concurrent
// use.
type HeaderItem struct {
	limit  slidegate.Limit
	name   string // as a structured field writes it, with its quotes
	policy string // its item of RateLimit-Policy
	quota  string
	slots  bool // it is an in-flight limit
}

// NewHeaderItem prepares a limit under its name, or under its text if it has no name. The error is about a name that
// cannot stand in a header.
func NewHeaderItem(limit slidegate.Limit) (*HeaderItem, error) {
	item, err := newHeaderItem(limit)
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	return item, nil
}

// newHeaderItem is NewHeaderItem with an error that does not name the package, for callers whose own errors do.
func newHeaderItem(limit slidegate.Limit) (*HeaderItem, error) {
	name := limit.Name
	if name == "" {
		name = limit.String()
	}
	if len(name) > 2*policy.MaxName+1 { // of a policy and of its limit
		return nil, fmt.Errorf("the name %q... has %d bytes; use at most %d", name[:32], len(name), policy.MaxName)
	}
	quoted, ok := quote(name)
	if !ok {
		return nil, fmt.Errorf("the name %q cannot stand in a header: use printable ASCII", name)
	}
	return &HeaderItem{
		limit: limit, name: quoted, policy: quoted + policyParameters(limit), quota: strconv.FormatInt(limit.Quota, 10),
		slots: limit.Algorithm == slidegate.InFlight,
	}, nil
}

// policyParameters returns the parameters of a limit's item of RateLimit-Policy. The window is in whole seconds, so one that is not, or
// that differs from one to the next as months do, is left out; t says how much of it is left. An in-flight limit has no
// window: a slot is free as soon as a request has ended.
func policyParameters(limit slidegate.Limit) string {
	text := ";q=" + strconv.FormatInt(min(limit.Quota, sfMax), 10)
	switch {
	case limit.Algorithm == slidegate.InFlight:
		text += `;qu="concurrent-requests"`
	case limit.Window > 0 && limit.Window%time.Second == 0:
		text += ";w=" + strconv.FormatInt(int64(limit.Window/time.Second), 10)
	}
	return text
}

// quote returns a text as a String of a structured field (RFC 9651), which is JSON too, and whether it can be one: only
// printable ASCII can.
func quote(text string) (quoted string, ok bool) {
	b := append(make([]byte, 0, len(text)+2), '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~':
			return "", false
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"')), true
}

// Write sets the fields that say what a decision left of its limits, whose items are in the order of d.Answers, and
// Retry-After if d is a refusal that waiting ends. If the store failed and no limit was asked, it writes nothing about
// limits, nor if there are no items.
//
// What a middleware around this one has written stays: the items of RateLimit and RateLimit-Policy are added to those that are
// there, three fields are written unless those that are there say that less remains, and of two Retry-After the later stays.
func (dialect Headers) Write(h http.Header, items []*HeaderItem, d *slidegate.Decision) {
	dialect.write(h, items, d, !d.Allowed)
}

// write is Write for a request that need not be refused although the limits have nothing left for it: one that costs nothing. It
// reports whether the fields of the same limits were there already.
func (dialect Headers) write(h http.Header, items []*HeaderItem, d *slidegate.Decision, refused bool) (again bool) {
	if dialect == HeadersNone && !refused {
		return false
	}
	var outer *fields
	if len(h) > 0 {
		outer = outerFields(h, dialect)
	}
	if d.Flags&undecided == 0 && len(items) > 0 {
		switch dialect {
		case HeadersNone:
		case HeadersIETF:
			writeIETF(h, items, d)
		default:
			dialect.trio(h, items, d)
		}
	}
	if refused {
		setRetryAfter(h, d)
	}
	return outer != nil && outer.join(h, dialect, refused)
}

// itemBytes is about how long an item of RateLimit or of RateLimit-Policy is.
const itemBytes = 64

// writeIETF writes RateLimit-Policy and RateLimit.
func writeIETF(h http.Header, items []*HeaderItem, d *slidegate.Decision) {
	if len(items) == 1 && d.Answers == nil {
		v := newValues(2, itemBytes)
		h["Ratelimit-Policy"] = v.line(items[0].policy)
		from := len(v.text)
		v.text = appendItem(v.text, items[0], d.Remaining, items[0].effective(d.Allowed, d.Remaining, max(d.RetryAfter, d.NextAfter), d.ResetAfter))
		h["Ratelimit"] = v.line(v.cut(from))
		v.giveBack()
		return
	}
	v := newValues(2, 2*itemBytes*len(items))
	from := len(v.text)
	for i, item := range items {
		if i > 0 {
			v.text = append(v.text, ", "...)
		}
		v.text = append(v.text, item.policy...)
	}
	h["Ratelimit-Policy"] = v.line(v.cut(from))
	from = len(v.text)
	for i, item := range items {
		a := &d.Answers[i]
		if i > 0 {
			v.text = append(v.text, ", "...)
		}
		v.text = appendItem(v.text, item, a.Remaining, item.effective(a.Allowed, a.Remaining, duration(a.After()), duration(a.ResetAfter)))
	}
	h["Ratelimit"] = v.line(v.cut(from))
	v.giveBack()
}

func appendItem(b []byte, item *HeaderItem, remaining, t int64) []byte {
	b = append(b, item.name...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, min(remaining, sfMax), 10)
	if t < 0 {
		return b
	}
	b = append(b, ";t="...)
	return strconv.AppendInt(b, min(t, sfMax), 10)
}

// effective is how long, in seconds, what remains has to do: until the same cost is admitted again after a refusal, until a unit is
// free if an admission took the last one, or else until all is free. It is -1, and left out, if that never comes or is not
// known: nobody knows when the requests that hold the slots of an in-flight limit will end, and a client that waited for the latest
// moment would wait in vain. After a refusal it must wait for something: that is until the first slot ends, if it is not renewed.
func (item *HeaderItem) effective(allowed bool, remaining int64, next, reset time.Duration) int64 {
	switch {
	case !allowed:
		return seconds(next)
	case item.slots:
		return -1
	case remaining > 0:
		return seconds(reset)
	case next > 0:
		return seconds(next)
	default:
		return -1
	}
}

// trio writes three fields, whose names differ by dialect. The last one is left out if an in-flight limit admitted: see effective.
func (dialect Headers) trio(h http.Header, items []*HeaderItem, d *slidegate.Decision) {
	names, item := dialect.names(), items[d.Index]
	v := newValues(3, itemBytes)
	from := len(v.text)
	v.text = strconv.AppendInt(v.text, d.Remaining, 10)
	h[names[0]], h[names[1]] = v.line(item.quota), v.line(v.cut(from))
	if item.slots && d.Allowed {
		delete(h, names[2]) // of a middleware around this one, whose limits have more left
		v.giveBack()
		return
	}
	wait := d.ResetAfter
	switch {
	case !d.Allowed && d.RetryAfter != slidegate.Never:
		wait = d.RetryAfter
	case d.NextAfter > 0:
		wait = d.NextAfter
	}
	reset := seconds(wait)
	if dialect == HeadersX {
		reset = ceil(int64(d.At)+wait.Microseconds(), 1e6)
	}
	from = len(v.text)
	v.text = strconv.AppendInt(v.text, reset, 10)
	h[names[2]] = v.line(v.cut(from))
	v.giveBack()
}

var (
	plainNames = [3]string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}
	xNames     = [3]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
)

// names are what the three fields are called.
func (dialect Headers) names() *[3]string {
	if dialect == HeadersDraft03 {
		return &plainNames
	}
	return &xNames
}

// retrySeconds is how many whole seconds a refused client has to wait, at least one. It is -1 if waiting does not help, or if
// the time is unknown because the store could not be asked.
func retrySeconds(d *slidegate.Decision) int64 {
	if d.RetryAfter == slidegate.Never || d.RetryAfter <= 0 && d.Flags&rule.FallbackClosed != 0 {
		return -1
	}
	return max(1, seconds(d.RetryAfter))
}

// setRetryAfter writes when to come back, if that is known.
func setRetryAfter(h http.Header, d *slidegate.Decision) {
	wait := retrySeconds(d)
	switch {
	case wait < 0:
	case wait < int64(len(waits)):
		h["Retry-After"] = waits[wait]
	default:
		v := newValues(1, itemBytes)
		from := len(v.text)
		v.text = strconv.AppendInt(v.text, wait, 10)
		h["Retry-After"] = v.line(v.cut(from))
		v.giveBack()
	}
}

// waits are the usual values of Retry-After, made once. They are shared, and appending to one makes a copy.
var waits = func() (all [301][]string) {
	for i := range all {
		all[i] = []string{strconv.Itoa(i)}
	}
	return all
}()

// seconds rounds up, and is -1 for what never comes.
func seconds(d time.Duration) int64 {
	if d == slidegate.Never {
		return -1
	}
	return ceil(int64(d), int64(time.Second))
}

func ceil(n, unit int64) int64 {
	return n/unit + min(1, n%unit)
}

func duration(m rule.Micros) time.Duration {
	if m > math.MaxInt64/1000 { // Never, or centuries
		return slidegate.Never
	}
	return time.Duration(m) * time.Microsecond
}
