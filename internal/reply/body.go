package reply

import (
	"net/http"
	"strconv"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// Body is the format of the body of a refusal.
type Body uint8

// The Bodies.
const (
	Problem Body = iota // application/problem+json (RFC 9457) of the registered type quota-exceeded
	JSON                // application/json: {"error":"rate limited","limit":"api","retry_after":18}
	Text                // text/plain: a sentence
	NoBody              // nothing
	Bodies              // how many there are
)

// The types of problem documents, as registered with IANA.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// uncheckedText is the sentence for requests that could not be decided.
const uncheckedText = "The rate limit could not be checked."

// contentTypes are header values, allocated once.
var contentTypes = [Bodies][]string{{"application/problem+json"}, {"application/json"}, {"text/plain; charset=utf-8"}, {""}}

// ContentType returns the value of Content-Type that goes with the body, which is empty for NoBody. It is shared.
func (body Body) ContentType() []string { return contentTypes[body] }

// Status returns the status of a refusal: 429, or 503 if the store could not decide (rule.FallbackClosed).
func Status(d *slidegate.Decision) int {
	if d.Flags&rule.FallbackClosed != 0 {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// StatusClientLeft is the status of a request whose client left before there was a response. Nobody reads it; it is for logs and metrics, as
// nginx has it.
const StatusClientLeft = 499

// Undecided returns the decision on a request that could not be decided, for handlers that write their own responses: a refusal
// with 503.
func Undecided() slidegate.Decision { return slidegate.Decision{Flags: rule.FallbackClosed} }

// AppendRefusal appends the body of a refusal by the limits of the items; see Dialect.Write. It names the limit that refused as
// the header fields do. A decision with rule.FallbackClosed needs no items: its body says that the request could not be
// checked. Without items, the body of any other decision says that the client is blocked, as it is by a ruling with an end.
func (body Body) AppendRefusal(b []byte, items []*Item, d *slidegate.Decision) []byte {
	wait, closed := retrySeconds(d), d.Flags&rule.FallbackClosed != 0
	slots := int(d.Index) < len(items) && items[d.Index].slots
	if len(items) == 0 && !closed {
		return body.appendBlocked(b, wait)
	}
	switch {
	case body == NoBody:
		return b
	case body == Text && closed:
		return append(b, uncheckedText+"\n"...)
	case body == Text:
		return append(appendSentence(b, slots, d.Remaining, wait), '\n')
	case body == JSON && closed:
		b = append(b, `{"error":"rate limit unavailable"`...)
	case body == JSON:
		b = append(b, `{"error":"rate limited","limit":`...)
		b = append(b, items[d.Index].name...) // a quoted name is JSON too
	case closed:
		b = append(b, `{"type":"`+problemCapacity+`","title":"Service unavailable","status":503,"detail":"`+uncheckedText+`"`...)
	default:
		b = append(b, `{"type":"`+problemQuota+`","title":"Too many requests","status":429,"detail":"`...)
		b = appendSentence(b, slots, d.Remaining, wait)
		b = append(b, `","violated-policies":[`...)
		b = append(b, items[d.Index].name...)
		b = append(b, ']')
	}
	if wait >= 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, wait, 10)
	}
	return append(b, "}\n"...)
}

// appendBlocked appends the body of a refusal by a ruling with an end.
func (body Body) appendBlocked(b []byte, wait int64) []byte {
	switch body {
	case NoBody:
		return b
	case Text:
		return append(appendWait(append(b, blockedFor...), wait), '\n')
	case JSON:
		b = append(b, `{"error":"blocked"`...)
	default:
		b = append(b, `{"type":"about:blank","title":"Too many requests","status":429,"detail":"`+blockedFor...)
		b = append(appendWait(b, wait), '"')
	}
	b = append(b, `,"retry_after":`...)
	b = strconv.AppendInt(b, wait, 10)
	return append(b, "}\n"...)
}

// blockedFor begins the sentence for clients that are blocked by a ruling with an end.
const blockedFor = "The client is blocked. Try again in "

// appendSentence appends why a limit refused, of which left units are free. A slot of an in-flight limit is free as soon as a request ends, so the sentence
// suggests trying again before a slot would expire.
func appendSentence(b []byte, slots bool, left, wait int64) []byte {
	switch {
	case wait < 0:
		return append(b, "The request is larger than the quota, and will never be admitted."...)
	case slots:
		b = append(b, "Too many requests are being served at once. Try again in at most "...)
	case left > 0:
		b = append(b, "The request costs more than is left of the quota. Try again in "...)
	default:
		b = append(b, "The quota is used up. Try again in "...)
	}
	return appendWait(b, wait)
}

func appendWait(b []byte, wait int64) []byte {
	if wait == 1 {
		return append(b, "1 second."...)
	}
	b = strconv.AppendInt(b, wait, 10)
	return append(b, " seconds."...)
}
