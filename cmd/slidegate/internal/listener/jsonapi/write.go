package jsonapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// lastLimit records the limit of the previous decision of a batch, and where its fields are in the output: most decisions
// of a batch have the same limit.
type lastLimit struct {
	policy, limit string
	quota         int64
	from, to      int
}

// appendInt appends a field with a number. The text before it ends with the colon.
func appendInt(to []byte, field string, n int64) []byte {
	to = append(to, field...)
	return strconv.AppendInt(to, n, 10)
}

// appendOrNull appends a field with a number, or null.
func appendOrNull(to []byte, field string, n int64, null bool) []byte {
	if null {
		to = append(to, field...)
		return append(to, "null"...)
	}
	return appendInt(to, field, n)
}

// appendBool appends a field that is true or false.
func appendBool(to []byte, field string, is bool) []byte {
	to = append(to, field...)
	return strconv.AppendBool(to, is)
}

// appendLimitFields appends the policy, the limit that decided and its quota.
func appendLimitFields(to []byte, v *policy.Decision, last *lastLimit) []byte {
	d := &v.Decision
	if last != nil && last.to > 0 && last.quota == d.Quota && last.policy == v.Policy && last.limit == d.LimitName {
		return append(to, to[last.from:last.to]...)
	}
	from := len(to)
	to = appendText(to, `,"policy":`, v.Policy)
	to = appendText(to, `,"limit":`, d.LimitName)
	to = appendInt(to, `,"quota":`, d.Quota)
	if last != nil {
		*last = lastLimit{v.Policy, d.LimitName, d.Quota, from, len(to)}
	}
	return to
}

// appendDecision appends the fields of a decision, without the enclosing braces. Last is nil outside a batch.
func appendDecision(to []byte, v *policy.Decision, last *lastLimit) []byte {
	d := &v.Decision
	to = appendBool(to, `"allowed":`, d.Allowed)
	to = appendLimitFields(to, v, last)
	to = appendRemaining(to, d.Remaining, d.Flags)
	to = appendInt(to, `,"granted":`, d.Granted)
	to = appendOrNull(to, `,"retry_after_us":`, d.RetryAfter.Microseconds(), d.RetryAfter == slidegate.Never)
	to = appendInt(to, `,"reset_after_us":`, d.ResetAfter.Microseconds())
	to = appendInt(to, `,"at_us":`, int64(d.At))
	to = append(to, `,"by":"`...)
	to = append(to, v.By.String()...)
	to = appendFlags(append(to, '"'), d.Flags)
	to = appendBool(to, `,"shadow":`, v.Shadow)
	to = appendBool(to, `,"refused":`, v.Refused)
	if len(d.Answers) > 0 && len(d.Answers) == len(v.Limits) {
		to = appendLimits(to, v)
	}
	return to
}

// appendRemaining appends what is left, or null if no limit decided: the store did not answer, and 0 would mean that nothing is
// left.
func appendRemaining(to []byte, remaining int64, flags rule.Flags) []byte {
	return appendOrNull(to, `,"remaining":`, remaining, flags&(rule.FallbackOpen|rule.FallbackClosed) != 0)
}

// appendLimits appends the answer of each of several limits.
func appendLimits(to []byte, v *policy.Decision) []byte {
	to = append(to, `,"limits":[`...)
	for i := range v.Limits {
		limit, a := &v.Limits[i], &v.Decision.Answers[i]
		if i > 0 {
			to = append(to, ',')
		}
		to = appendText(to, `{"limit":`, gate.Label(limit))
		to = appendBool(to, `,"allowed":`, a.Allowed)
		to = appendInt(to, `,"quota":`, limit.Quota)
		to = appendInt(to, `,"window_us":`, limit.Window.Microseconds())
		to = appendRemaining(to, a.Remaining, a.Flags)
		to = appendOrNull(to, `,"retry_after_us":`, int64(a.RetryAfter), a.RetryAfter == rule.Never)
		to = appendInt(to, `,"reset_after_us":`, int64(a.ResetAfter))
		to = append(appendFlags(to, a.Flags), '}')
	}
	return append(to, ']')
}

// appendFlags appends how the decision was made, which is almost always by the store.
func appendFlags(to []byte, flags rule.Flags) []byte {
	to = append(to, `,"flags":[`...)
	for i := 0; flags != 0 && i < len(gate.Flags); i++ {
		if flags&gate.Flags[i].Flag == 0 {
			continue
		}
		if to[len(to)-1] != '[' {
			to = append(to, ',')
		}
		to = append(to, '"')
		to = append(to, gate.Flags[i].Name...)
		to = append(to, '"')
	}
	return append(to, ']')
}

// appendText appends a field with a string. Almost all strings need no escapes.
func appendText(to []byte, field, text string) []byte {
	to = append(to, field...)
	for i := range len(text) {
		if !plain[text[i]] {
			return appendJSON(to, text)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// appendJSON appends a value of strings, bytes and numbers.
func appendJSON(to []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // cannot fail for these
	}
	return append(to, text...)
}

// respond sends c.out.
func (c *call) respond(w http.ResponseWriter, status int) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if status == http.StatusTooManyRequests {
		h["Cache-Control"] = noStore // RFC 6585: a 429 must not be stored by a cache
	}
	if len(c.out) > smallResponse {
		h["Content-Length"] = []string{strconv.Itoa(len(c.out))}
	}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(c.out) // the client may have disconnected
}

// deliver is respond, and reports whether the response was passed on to the connection. It may still be lost on its way.
func (c *call) deliver(w http.ResponseWriter, status int) bool {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(c.out))} // otherwise it would be sent in chunks
	c.respond(w, status)
	err := http.NewResponseController(w).Flush() // which also returns the error of an earlier write
	return err == nil || errors.Is(err, http.ErrNotSupported)
}

// smallResponse is how many bytes net/http buffers to determine the length of a response. Longer responses need a
// Content-Length, or are sent in chunks.
const smallResponse = 2048 - utf8.UTFMax
