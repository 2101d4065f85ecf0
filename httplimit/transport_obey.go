package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	maxFieldBytes = 8 << 10 // of all lines of a field together; longer fields are ignored
	maxNameBytes  = 64      // of a server's name for a limit

	// Resets of at least this size are Unix times, in seconds and in milliseconds.
	epochSeconds = 1_000_000_000
	epochMillis  = 1_000_000_000_000
)

// heldFor returns for how long a response asks the client to send no other request, and the server's name for the limit, if it
// has one. 0 means that it does not. The time is not bounded: a server may send anything.
func heldFor(response *http.Response, now time.Time) (hold time.Duration, limit string) {
	h := response.Header
	if _, cached := h["Age"]; cached {
		return 0, ""
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusPaymentRequired, http.StatusForbidden: // GitHub sends the last one
		if hold, ok := retryAfter(h, now); ok {
			_, limit := rateLimitHold(h) // the limit that refused
			return hold, limit
		}
	}
	hold, limit = rateLimitHold(h)
	for _, prefix := range [...]string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-"} {
		if other := trioHold(fieldLines(h, prefix+"Remaining"), fieldLines(h, prefix+"Reset"), now); other > hold {
			hold, limit = other, ""
		}
	}
	return hold, limit
}

// fieldLines returns the lines of a field, or nothing if they are too long.
func fieldLines(h http.Header, name string) []string {
	values, bytes := h[name], 0
	for _, value := range values {
		bytes += len(value)
	}
	if bytes > maxFieldBytes {
		return nil
	}
	return values
}

// retryAfter returns the time of Retry-After, the longest if there are several, and whether any was valid. A date in the past
// is valid.
func retryAfter(h http.Header, now time.Time) (hold time.Duration, ok bool) {
	for _, value := range fieldLines(h, "Retry-After") {
		if n, valid := parseRoundedUp(value); valid {
			hold, ok = max(hold, fromSeconds(n)), true
		} else if date, err := http.ParseTime(value); err == nil {
			hold, ok = max(hold, date.Sub(now)), true
		}
	}
	return hold, ok
}

// rateLimitHold returns the longest time of the items of RateLimit with nothing remaining, and the item's name.
func rateLimitHold(h http.Header) (hold time.Duration, limit string) {
	values := fieldLines(h, "Ratelimit")
	if len(values) == 0 {
		return 0, ""
	}
	valid := readMembers(values, false, func(m fieldMember) {
		name, named := parseName(m.value)
		if m.r == "" && m.t == "" {
			m.r, m.t = m.a, m.w
		}
		remaining, counted := parseInteger(m.r)
		seconds, timed := parseInteger(m.t)
		if !named || !counted || remaining != 0 || !timed {
			return
		}
		if other := fromSeconds(seconds); other > hold {
			hold, limit = other, name[:min(len(name), maxNameBytes)]
		}
	})
	if !valid {
		return draft07Hold(values), ""
	}
	return hold, limit
}

// draft07Hold returns the time of a RateLimit of draft 07, which was a dictionary.
func draft07Hold(values []string) time.Duration {
	found := map[string]string{}
	valid := readMembers(values, true, func(m fieldMember) { found[m.key] = m.value })
	remaining, counted := parseInteger(found["remaining"])
	seconds, timed := parseInteger(found["reset"])
	if !valid || !counted || remaining != 0 || !timed {
		return 0
	}
	return fromSeconds(seconds)
}

// trioHold returns the time of a reset if nothing remains. The strictest of repeated fields counts.
func trioHold(remaining, reset []string, now time.Time) (hold time.Duration) {
	exhausted := false
	for _, value := range remaining {
		whole, _, _ := strings.Cut(strings.TrimSpace(value), ".") // a fraction of a unit is not enough for a request
		n, valid := parseRoundedUp(whole)
		exhausted = exhausted || valid && n == 0
	}
	if !exhausted {
		return 0
	}
	for _, value := range reset {
		if n, valid := parseRoundedUp(value); valid {
			hold = max(hold, untilReset(n, now))
		}
	}
	return hold
}

// untilReset returns the time until a reset, whose unit depends on its size.
func untilReset(n int64, now time.Time) time.Duration {
	switch {
	case n < epochSeconds:
		return fromSeconds(n)
	case n < epochMillis:
		return time.Unix(n, 0).Sub(now)
	default:
		return time.UnixMilli(n).Sub(now)
	}
}

// fromSeconds returns n seconds, at most the longest duration, and 0 for a negative n.
func fromSeconds(n int64) time.Duration {
	return time.Duration(max(0, min(n, math.MaxInt64/int64(time.Second)))) * time.Second
}

// parseRoundedUp reads a decimal number without a sign, and rounds it up. Signs, exponents and words such as NaN are not
// valid. A number too large for an int64 is valid, and becomes the largest.
func parseRoundedUp(text string) (n int64, valid bool) {
	whole, fraction, pointed := strings.Cut(strings.TrimSpace(text), ".")
	if !onlyDigits(whole) || pointed && !onlyDigits(fraction) {
		return 0, false
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return math.MaxInt64, true // it has only digits, so it is too large
	}
	if strings.Trim(fraction, "0") != "" && n < math.MaxInt64 {
		n++
	}
	return n, true
}

// onlyDigits reports whether a text consists of one or more digits.
func onlyDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
