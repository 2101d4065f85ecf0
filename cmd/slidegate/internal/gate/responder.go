package gate

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
)

// Responder writes decisions to HTTP responses, in the same way for all listeners. The zero value writes the fields of the
// newest IETF draft. It is safe for concurrent use, and must not be copied.
type Responder struct {
	Dialect httplimit.Headers
	items   reply.Items
}

// WriteHeader sets the fields that report what is left of the limits, and Retry-After if the decision is a refusal that
// ends with time. It writes nothing about limits if none decided (a list, no limit at all, a failure mode that admits
// or refuses everything) or if the policy is in shadow mode.
func (r *Responder) WriteHeader(h http.Header, d *policy.Decision) {
	var buf [8]*reply.Item
	items := buf[:0]
	if hasAnswers(d) {
		items = r.items.Append(items, d.Limits)
	}
	r.Dialect.Write(h, items, &d.Decision, !d.Allowed)
}

// Refusal returns the problem document of a refusal by limits or by a failure mode, worded as the policy configures; see
// Gate.RefusalTexts.
func (r *Responder) Refusal(d *policy.Decision, words *reply.Texts) []byte {
	return words.AppendRefusal(nil, reply.Problem, r.items.Append(nil, d.Limits), &d.Decision)
}

// Status returns the status of such a refusal.
func (*Responder) Status(d *policy.Decision, words *reply.Texts) int {
	return words.Status(len(d.Limits), &d.Decision)
}

// RefusalTexts returns the texts of a policy's refusals; nil means the default texts.
func (g *Gate) RefusalTexts(policy string) *reply.Texts {
	if p := g.current.Load().policies[policy]; p != nil {
		return p.words
	}
	return nil
}

// Forbidden returns the problem document of a decision that is Forbidden.
func Forbidden(d *policy.Decision) problemjson.Document {
	if d.By == policy.ByRuling {
		return problemjson.Blocked
	}
	return problemjson.Refused
}

// hasAnswers reports whether the decision has an answer from each of its limits, and clients may see them.
func hasAnswers(d *policy.Decision) bool {
	answers := len(d.Decision.Answers)
	return d.By == policy.ByLimits && !d.Shadow && (len(d.Limits) == answers || len(d.Limits) == 1 && answers == 0)
}
