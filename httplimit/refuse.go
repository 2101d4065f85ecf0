package httplimit

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/slidegate/slidegate"
)

// Body is what a refusal says.
type Body uint8

// The bodies.
const (
	BodyProblem Body = iota // application/problem+json (RFC 9457) of the registered type quota-exceeded
	BodyJSON                // application/json: {"error":"rate limited","limit":"api","retry_after":18}
	BodyText                // text/plain: a sentence
	BodyNone
	bodies
)

// The types of problem documents, as registered with IANA.
const (
	problemQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	problemCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
)

// refuse answers a request that is over its limit.
func (m *Middleware) refuse(w http.ResponseWriter, limits []told, d *slidegate.Decision) {
	wait := setRetryAfter(w.Header(), d)
	text := bodyTexts.Get().(*[]byte)
	*text = appendRefusal((*text)[:0], m.opts.Body, limits[d.Index].name, wait)
	m.send(w, http.StatusTooManyRequests, *text)
	bodyTexts.Put(text)
}

// unavailable answers a request that nobody could decide.
func (m *Middleware) unavailable(w http.ResponseWriter) {
	m.send(w, http.StatusServiceUnavailable, []byte(unavailable[m.opts.Body]))
}

var unavailable = [bodies]string{
	`{"type":"` + problemCapacity + `","title":"Service unavailable","status":503,"detail":"The rate limit could not be checked."}` + "\n",
	`{"error":"rate limit unavailable"}` + "\n",
	"The rate limit could not be checked.\n",
	"",
}

var (
	noStore      = []string{"no-store"}
	contentTypes = [bodies][]string{{"application/problem+json"}, {"application/json"}, {"text/plain; charset=utf-8"}, nil}
	bodyTexts    = sync.Pool{New: func() any { return new(make([]byte, 0, 512)) }}
)

// send writes the head and the body of an answer.
func (m *Middleware) send(w http.ResponseWriter, status int, text []byte) {
	h := w.Header()
	h["Cache-Control"] = noStore // RFC 6585: a 429 must not be stored by a cache
	if m.opts.Body == BodyNone {
		w.WriteHeader(status)
		return
	}
	h["Content-Type"] = contentTypes[m.opts.Body]
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone away is not worth an error
}

// setRetryAfter tells when to come back, in whole seconds, rounded up. It is -1 if no waiting helps, and then says nothing.
func setRetryAfter(h http.Header, d *slidegate.Decision) int64 {
	wait := seconds(d.RetryAfter)
	if wait < 0 {
		return wait
	}
	wait = max(1, wait)
	if wait < int64(len(waits)) {
		h["Retry-After"] = waits[wait]
	} else {
		v := newValues(1, itemBytes)
		from := len(v.text)
		v.text = appendNumber(v.text, wait)
		h["Retry-After"] = v.line(v.cut(from))
		v.giveBack()
	}
	return wait
}

// waits are the usual values of Retry-After, made once. They are shared, and appending to one makes a copy.
var waits = func() (all [301][]string) {
	for i := range all {
		all[i] = []string{strconv.Itoa(i)}
	}
	return all
}()

// appendRefusal appends the body of a refusal. The name is quoted as a structured field, which is JSON too.
func appendRefusal(b []byte, body Body, name string, wait int64) []byte {
	switch body {
	case BodyProblem:
		b = append(b, `{"type":"`+problemQuota+`","title":"Too many requests","status":429,"detail":"`...)
		b = appendSentence(b, wait)
		b = append(b, `","violated-policies":[`...)
		b = append(b, name...)
		b = append(b, ']')
	case BodyJSON:
		b = append(b, `{"error":"rate limited","limit":`...)
		b = append(b, name...)
	default:
		b = appendSentence(b, wait)
		return append(b, '\n')
	}
	if wait >= 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, wait, 10)
	}
	return append(b, "}\n"...)
}

func appendSentence(b []byte, wait int64) []byte {
	switch {
	case wait < 0:
		return append(b, "The request is larger than the quota, and will never be admitted."...)
	case wait == 1:
		return append(b, "The quota is used up. Try again in 1 second."...)
	}
	b = append(b, "The quota is used up. Try again in "...)
	b = strconv.AppendInt(b, wait, 10)
	return append(b, " seconds."...)
}
