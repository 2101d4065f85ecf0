package jsonapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// flagNames names the flags, by their bits.
var flagNames = []struct {
	flag rule.Flags
	name string
}{
	{rule.Inherited, "inherited"},
	{rule.ClockMoved, "clock_moved"},
	{rule.Cached, "cached"},
	{rule.FallbackOpen, "fallback_open"},
	{rule.FallbackClosed, "fallback_closed"},
	{rule.FallbackLocal, "fallback_local"},
	{rule.Leased, "leased"},
	{rule.FallbackOptimistic, "fallback_optimistic"},
}

// lastLimit records the limit of the previous decision of a batch, and where its fields are in the output: most decisions
// of a batch have the same limit.
type lastLimit struct {
	policy, limit string
	quota         int64
	from, to      int
}

// appendLimitFields appends the policy, the limit that decided and its quota.
func appendLimitFields(to []byte, v *gate.Verdict, last *lastLimit) []byte {
	d := &v.Decision
	if last != nil && last.to > 0 && last.quota == d.Quota && last.policy == v.Policy && last.limit == d.LimitName {
		return append(to, to[last.from:last.to]...)
	}
	from := len(to)
	to = append(to, `,"policy":`...)
	to = appendText(to, v.Policy)
	to = append(to, `,"limit":`...)
	to = appendText(to, d.LimitName)
	to = append(to, `,"quota":`...)
	to = strconv.AppendInt(to, d.Quota, 10)
	to = append(to, `,"remaining":`...)
	if last != nil {
		*last = lastLimit{v.Policy, d.LimitName, d.Quota, from, len(to)}
	}
	return to
}

// appendVerdict appends the fields of a decision, without the enclosing braces. Last is nil outside a batch.
func appendVerdict(to []byte, v *gate.Verdict, last *lastLimit) []byte {
	d := &v.Decision
	if d.Allowed {
		to = append(to, `"allowed":true`...)
	} else {
		to = append(to, `"allowed":false`...)
	}
	to = appendLimitFields(to, v, last)
	to = strconv.AppendInt(to, d.Remaining, 10)
	to = append(to, `,"granted":`...)
	to = strconv.AppendInt(to, d.Granted, 10)
	to = append(to, `,"retry_after_us":`...)
	if d.RetryAfter == slidegate.Never {
		to = append(to, "null"...)
	} else {
		to = strconv.AppendInt(to, d.RetryAfter.Microseconds(), 10)
	}
	to = append(to, `,"reset_after_us":`...)
	to = strconv.AppendInt(to, d.ResetAfter.Microseconds(), 10)
	to = append(to, `,"at_us":`...)
	to = strconv.AppendInt(to, int64(d.At), 10)
	to = appendSource(to, v)
	if len(d.Answers) > 0 && len(d.Answers) == len(v.Limits) {
		to = appendLimits(to, v)
	}
	return to
}

// appendSource appends how the decision was made, which is almost always by the limits of the store.
func appendSource(to []byte, v *gate.Verdict) []byte {
	if v.By == gate.ByLimits && v.Decision.Flags == 0 && !v.Shadow {
		if v.Refused {
			return append(to, `,"by":"limits","flags":[],"shadow":false,"refused":true`...)
		}
		return append(to, `,"by":"limits","flags":[],"shadow":false,"refused":false`...)
	}
	to = append(to, `,"by":"`...)
	to = append(to, v.By.String()...)
	to = append(to, `","flags":`...)
	to = appendFlags(to, v.Decision.Flags)
	to = append(to, `,"shadow":`...)
	to = strconv.AppendBool(to, v.Shadow)
	to = append(to, `,"refused":`...)
	return strconv.AppendBool(to, v.Refused)
}

// appendLimits appends the answer of each of several limits.
func appendLimits(to []byte, v *gate.Verdict) []byte {
	to = append(to, `,"limits":[`...)
	for i := range v.Limits {
		limit, a := &v.Limits[i], &v.Decision.Answers[i]
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"limit":`...)
		to = appendText(to, labelOf(limit))
		to = append(to, `,"allowed":`...)
		to = strconv.AppendBool(to, a.Allowed)
		to = append(to, `,"quota":`...)
		to = strconv.AppendInt(to, limit.Quota, 10)
		to = append(to, `,"window_us":`...)
		to = strconv.AppendInt(to, limit.Window.Microseconds(), 10)
		to = append(to, `,"remaining":`...)
		to = strconv.AppendInt(to, a.Remaining, 10)
		to = append(to, `,"retry_after_us":`...)
		if a.RetryAfter == rule.Never {
			to = append(to, "null"...)
		} else {
			to = strconv.AppendInt(to, int64(a.RetryAfter), 10)
		}
		to = append(to, `,"reset_after_us":`...)
		to = strconv.AppendInt(to, int64(a.ResetAfter), 10)
		to = append(to, `,"flags":`...)
		to = appendFlags(to, a.Flags)
		to = append(to, '}')
	}
	return append(to, ']')
}

// labelOf returns the label of a limit in decisions: its name, or its text if it has none.
func labelOf(limit *slidegate.Limit) string {
	if limit.Name != "" {
		return limit.Name
	}
	return limit.String()
}

func appendFlags(to []byte, flags rule.Flags) []byte {
	to = append(to, '[')
	if flags != 0 {
		comma := false
		for _, one := range flagNames {
			if flags&one.flag == 0 {
				continue
			}
			if comma {
				to = append(to, ',')
			}
			to = append(to, '"')
			to = append(to, one.name...)
			to = append(to, '"')
			comma = true
		}
	}
	return append(to, ']')
}

// appendText appends a JSON string. Almost all strings need no escapes.
func appendText(to []byte, text string) []byte {
	for i := range len(text) {
		if !plain[text[i]] {
			return appendEscaped(to, text)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

func appendEscaped(to []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot fail for strings
	}
	return append(to, quoted...)
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
