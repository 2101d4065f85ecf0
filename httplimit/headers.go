package httplimit

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Headers is how a response tells what is left.
type Headers uint8

// The dialects. A time to wait is always in whole seconds, rounded up.
const (
	// HeadersIETF are RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers-11, an item a limit:
	//	RateLimit-Policy: "api";q=100;w=60
	//	RateLimit: "api";r=42;t=18
	HeadersIETF Headers = iota
	// HeadersDraft03 are RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, in seconds from now, of the limit that
	// decided.
	HeadersDraft03
	// HeadersX are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, which is a Unix time in seconds.
	HeadersX
	// HeadersXDelta are the same with X-RateLimit-Reset in seconds from now.
	HeadersXDelta
	// HeadersNone tells nothing, but Retry-After with a refusal.
	HeadersNone
	dialects
)

// sfMax is the largest integer of a structured field.
const sfMax = 999_999_999_999_999

// told is one limit as a response tells about it.
type told struct {
	name   string // as a structured field writes it, with its quotes
	limit  slidegate.Limit
	policy string // its item of RateLimit-Policy
	quota  string
}

// tell makes a limit ready to be told about.
func tell(name string, limit slidegate.Limit) (told, error) {
	item := httpsfv.NewItem(name)
	item.Params.Add("q", min(limit.Quota, sfMax))
	if seconds := int64(limit.Window / time.Second); seconds >= 1 && limit.Window%time.Second == 0 {
		item.Params.Add("w", min(seconds, sfMax))
	}
	policy, err := httpsfv.Marshal(item)
	if err != nil {
		return told{}, fmt.Errorf("httplimit: the name %q cannot stand in a header: use printable ASCII", name)
	}
	quoted, err := httpsfv.Marshal(httpsfv.NewItem(name))
	return told{name: quoted, limit: limit, policy: policy, quota: strconv.FormatInt(limit.Quota, 10)}, err
}

// policyField returns the value of RateLimit-Policy.
func policyField(limits []told) string {
	var b strings.Builder
	for i := range limits {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(limits[i].policy)
	}
	return b.String()
}

// write tells about a decision over limits, which are in the order of its answers.
func (dialect Headers) write(h http.Header, limits []told, policies string, d *slidegate.Decision) {
	switch dialect {
	case HeadersNone:
	case HeadersIETF:
		v := newValues(2, itemBytes*len(limits))
		h["Ratelimit-Policy"] = v.line(policies)
		h["Ratelimit"] = v.line(rateLimit(v, limits, d))
		v.giveBack()
	default:
		dialect.trio(h, limits[d.Index].quota, d)
	}
}

// itemBytes is about how long an item of RateLimit is.
const itemBytes = 64

// rateLimit returns the value of RateLimit.
func rateLimit(v *values, limits []told, d *slidegate.Decision) string {
	from := len(v.text)
	if d.Answers == nil {
		v.text = appendItem(v.text, &limits[0], d.Remaining, effective(d.Allowed, d.Remaining, d.RetryAfter, d.ResetAfter))
		return v.cut(from)
	}
	for i := range limits {
		a := &d.Answers[i]
		if i > 0 {
			v.text = append(v.text, ", "...)
		}
		v.text = appendItem(v.text, &limits[i], a.Remaining, effective(a.Allowed, a.Remaining, duration(a.RetryAfter), duration(a.ResetAfter)))
	}
	return v.cut(from)
}

func appendItem(b []byte, limit *told, remaining, t int64) []byte {
	b = append(b, limit.name...)
	b = append(b, ";r="...)
	b = appendNumber(b, min(remaining, sfMax))
	if t < 0 {
		return b
	}
	b = append(b, ";t="...)
	return appendNumber(b, min(t, sfMax))
}

// effective is how long, in seconds, what remains has to do: until the same cost is admitted again, or until all is free.
// It is -1, and left out, if that never comes. It is left out too when an admission took the last of it: some comes back
// long before all is free, and who obeys would wait for nothing.
func effective(allowed bool, remaining int64, retry, reset time.Duration) int64 {
	switch {
	case !allowed:
		return seconds(retry)
	case remaining == 0:
		return -1
	default:
		return seconds(reset)
	}
}

// trio writes three fields, whose names differ by dialect.
func (dialect Headers) trio(h http.Header, quota string, d *slidegate.Decision) {
	wait := d.ResetAfter
	if !d.Allowed && d.RetryAfter != slidegate.Never {
		wait = d.RetryAfter
	}
	reset := seconds(wait)
	names := &plainNames
	if dialect != HeadersDraft03 {
		names = &xNames
	}
	if dialect == HeadersX {
		reset = ceil(int64(d.At)+wait.Microseconds(), 1e6)
	}
	v := newValues(3, itemBytes)
	from := len(v.text)
	v.text = appendNumber(v.text, d.Remaining)
	remaining := v.cut(from)
	from = len(v.text)
	v.text = appendNumber(v.text, reset)
	h[names[0]], h[names[1]], h[names[2]] = v.line(quota), v.line(remaining), v.line(v.cut(from))
	v.giveBack()
}

var (
	plainNames = [3]string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}
	xNames     = [3]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
)

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
