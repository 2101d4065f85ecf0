package gate

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/httplimit"
)

// Responder writes verdicts to HTTP responses, in the same way for all listeners. The zero value writes the fields of the
// newest IETF draft. It is safe for concurrent use, and must not be copied.
type Responder struct {
	Dialect httplimit.Headers
	items   httplimit.HeaderItems
}

// WriteHeader sets the fields that report what is left of the limits, and Retry-After if the verdict is a denial that
// ends with time. It writes nothing about limits if none decided (a list, no limit at all, a failure mode that admits
// or denies everything) or if the policy is in shadow mode.
func (r *Responder) WriteHeader(h http.Header, v *Verdict) {
	var buf [8]*httplimit.HeaderItem
	items := buf[:0]
	if hasAnswers(v) {
		items = r.items.Append(items, v.Limits)
	}
	r.Dialect.Write(h, items, &v.Decision)
}

// Refusal returns the problem document of a denial by limits or by a failure mode, worded as the policy configures; see
// Gate.RefusalTexts.
func (r *Responder) Refusal(v *Verdict, words *httplimit.RefusalTexts) []byte {
	return words.AppendRefusal(nil, httplimit.BodyProblem, r.items.Append(nil, v.Limits), &v.Decision)
}

// RefusalTexts returns the texts of a policy's refusals; nil means the default texts.
func (g *Gate) RefusalTexts(policy string) *httplimit.RefusalTexts {
	if p := g.current.Load().policies[policy]; p != nil {
		return p.words
	}
	return nil
}

// Forbidden returns the problem document of a verdict that is Forbidden.
func Forbidden(v *Verdict) problemjson.Document {
	if v.By == ByRuling {
		return problemjson.Blocked
	}
	return problemjson.Denied
}

// hasAnswers reports whether the verdict has an answer from each of its limits, and clients may see them.
func hasAnswers(v *Verdict) bool {
	answers := len(v.Decision.Answers)
	return v.By == ByLimits && !v.Shadow && (len(v.Limits) == answers || len(v.Limits) == 1 && answers == 0)
}
