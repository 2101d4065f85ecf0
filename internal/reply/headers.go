// Package reply writes what clients are told about a decision: header fields, and the bodies of refusals. The middleware and the
// service use it.
package reply

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/rule"
)

// Dialect is the dialect in which a response reports what is left.
type Dialect uint8

// The dialects, as in package httplimit.
const (
	IETF Dialect = iota
	Draft03
	X
	XDelta
	None
	Dialects // how many there are
)

// sfMax is the largest integer of a structured field.
const sfMax = 999_999_999_999_999

// undecided are the flags of a decision that no limit made: there is nothing to report about what is left.
const undecided = rule.FallbackOpen | rule.FallbackClosed

// Item is a limit prepared for header fields by NewItem or Items. It is safe for concurrent use.
type Item struct {
	limit  slidegate.Limit
	name   string // as in a structured field, with its quotes
	policy string // its item of RateLimit-Policy
	quota  string
	slots  bool // it is an in-flight limit
}

// NewItem prepares a limit under its name, or under its text if it has no name. It returns an error if the name is not
// valid in a header.
func NewItem(limit slidegate.Limit) (*Item, error) {
	name := limit.Name
	if name == "" {
		name = limit.String()
	}
	if len(name) > 2*engine.MaxName+1 { // of a policy and of its limit
		return nil, fmt.Errorf("the name %q... has %d bytes; use at most %d", name[:32], len(name), engine.MaxName)
	}
	quoted, ok := quote(name)
	if !ok {
		return nil, fmt.Errorf("the name %q is not valid in a header; use printable ASCII", name)
	}
	return &Item{
		limit: limit, name: quoted, policy: quoted + policyParameters(limit), quota: strconv.FormatInt(limit.Quota, 10),
		slots: limit.Algorithm == slidegate.InFlight,
	}, nil
}

// policyParameters returns the parameters of a limit's item of RateLimit-Policy. The window is in whole seconds, so a window
// that is not, or that varies in length as months do, is left out; t still reports how much of it is left. An in-flight limit
// has no window: a slot is free as soon as a request has ended.
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

// quote returns a text as a String of a structured field (RFC 9651), which is also valid JSON. It reports whether the text is
// printable ASCII, as it must be.
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

// Write sets the fields that report what a decision left of its limits, whose items are in the order of d.Answers, and
// Retry-After if the request is refused for a limited time. A request that costs nothing is not necessarily refused although the
// limits have nothing left for it. It writes nothing about limits if the store failed and no limit decided,
// or if there are no items.
//
// Fields that a middleware around this one has written are kept: items of RateLimit and RateLimit-Policy are added to the
// existing ones, the three fields of the other dialects are written unless the existing ones report less remaining, and the
// later of two Retry-After is kept.
func (dialect Dialect) Write(h http.Header, items []*Item, d *slidegate.Decision, refused bool) {
	if dialect == None && !refused {
		return
	}
	var outer *fields
	if len(h) > 0 {
		outer = outerFields(h, dialect)
	}
	if d.Flags&undecided == 0 && len(items) > 0 {
		switch dialect {
		case None:
		case IETF:
			writeIETF(h, items, d)
		default:
			dialect.writeTrio(h, items, d)
		}
	}
	if refused {
		SetRetryAfter(h, d)
	}
	if outer != nil {
		outer.join(h, dialect, refused)
	}
}

// itemBytes is the approximate length of an item of RateLimit or RateLimit-Policy.
const itemBytes = 64

// writeIETF writes RateLimit-Policy and RateLimit.
func writeIETF(h http.Header, items []*Item, d *slidegate.Decision) {
	if len(items) == 1 && d.Answers == nil {
		v := newValues(2, itemBytes)
		h["Ratelimit-Policy"] = v.line(items[0].policy)
		from := len(v.text)
		v.text = appendItem(v.text, items[0], d.Remaining, items[0].effectiveSeconds(d.Allowed, d.Remaining, max(d.RetryAfter, d.NextAfter), d.ResetAfter))
		h["Ratelimit"] = v.line(v.cut(from))
		v.putBack()
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
		v.text = appendItem(v.text, item, a.Remaining, item.effectiveSeconds(a.Allowed, a.Remaining, duration(answering.After(a)), duration(a.ResetAfter)))
	}
	h["Ratelimit"] = v.line(v.cut(from))
	v.putBack()
}

func appendItem(b []byte, item *Item, remaining, t int64) []byte {
	b = append(b, item.name...)
	b = append(b, ";r="...)
	b = strconv.AppendInt(b, min(remaining, sfMax), 10)
	if t < 0 {
		return b
	}
	b = append(b, ";t="...)
	return strconv.AppendInt(b, min(t, sfMax), 10)
}

// effectiveSeconds returns how many seconds the remaining units must last: after a refusal, until the same cost is admitted;
// after an admission that took the last unit, until a unit is free; otherwise until all are free. It is -1, and left out, if
// that never happens or is unknown. For an in-flight limit it is unknown when the requests that hold its slots will end, and a
// client that waited for the latest possible time would wait in vain. After a refusal, though, the client needs a time: when
// the first slot expires unless it is renewed.
func (item *Item) effectiveSeconds(allowed bool, remaining int64, next, reset time.Duration) int64 {
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

// writeTrio writes three fields, whose names depend on the dialect. The last one is left out if an in-flight limit admitted; see
// effectiveSeconds.
func (dialect Dialect) writeTrio(h http.Header, items []*Item, d *slidegate.Decision) {
	names, item := dialect.names(), items[d.Index]
	v := newValues(3, itemBytes)
	from := len(v.text)
	v.text = strconv.AppendInt(v.text, d.Remaining, 10)
	h[names[0]], h[names[1]] = v.line(item.quota), v.line(v.cut(from))
	if item.slots && d.Allowed {
		delete(h, names[2]) // written by a middleware around this one, whose limits have more left
		v.putBack()
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
	if dialect == X {
		reset = ceil(int64(d.At)+wait.Microseconds(), 1e6)
	}
	from = len(v.text)
	v.text = strconv.AppendInt(v.text, reset, 10)
	h[names[2]] = v.line(v.cut(from))
	v.putBack()
}

var (
	plainNames = [3]string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}
	xNames     = [3]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
)

// names returns the names of the three fields.
func (dialect Dialect) names() *[3]string {
	if dialect == Draft03 {
		return &plainNames
	}
	return &xNames
}

// retrySeconds returns how many whole seconds a refused client has to wait, at least one. It is -1 if waiting does not help, or
// if the time is unknown because the store did not decide.
func retrySeconds(d *slidegate.Decision) int64 {
	if d.RetryAfter == slidegate.Never || d.RetryAfter <= 0 && d.Flags&rule.FallbackClosed != 0 {
		return -1
	}
	return max(1, seconds(d.RetryAfter))
}

// SetRetryAfter writes Retry-After, if the time is known.
func SetRetryAfter(h http.Header, d *slidegate.Decision) {
	wait := retrySeconds(d)
	switch {
	case wait < 0:
	case wait < int64(len(retryAfterValues)):
		h["Retry-After"] = retryAfterValues[wait]
	default:
		v := newValues(1, itemBytes)
		from := len(v.text)
		v.text = strconv.AppendInt(v.text, wait, 10)
		h["Retry-After"] = v.line(v.cut(from))
		v.putBack()
	}
}

// retryAfterValues are the usual values of Retry-After, allocated once. They are shared; appending to one makes a copy.
var retryAfterValues = func() (all [301][]string) {
	for i := range all {
		all[i] = []string{strconv.Itoa(i)}
	}
	return all
}()

// seconds rounds up. It is -1 for a time that never comes.
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
	if m > math.MaxInt64/1000 { // rule.Never, or centuries
		return slidegate.Never
	}
	return time.Duration(m) * time.Microsecond
}
