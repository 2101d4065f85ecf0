package gate

import (
	"net/http"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/problemjson"
	"github.com/slidegate/slidegate/httplimit"
)

// Answers writes what a verdict says into answers over HTTP, the same for all listeners. The zero value writes the fields of
// the newest IETF draft. It is safe for concurrent use, and must not be copied.
type Answers struct {
	Dialect httplimit.Headers
	items   httplimit.HeaderItems
}

// WriteHeader sets the fields that say what is left of the limits, and Retry-After if the verdict is a refusal that waiting
// ends. Where no limit was asked (a list, no limit at all, a failure policy that admits or refuses everybody), and under a
// policy that only watches, there is nothing to say about limits.
func (a *Answers) WriteHeader(h http.Header, v *Verdict) {
	var room [8]*httplimit.HeaderItem
	items := room[:0]
	if counted(v) {
		items = a.items.Append(items, v.Limits)
	}
	a.Dialect.Write(h, items, &v.Decision)
}

// Refusal returns the problem document of a refusal by limits, or by a failure policy, in the words that the policy has; see
// Gate.Words.
func (a *Answers) Refusal(v *Verdict, words *httplimit.Words) []byte {
	return words.AppendRefusal(nil, httplimit.BodyProblem, a.items.Append(nil, v.Limits), &v.Decision)
}

// Words returns what the refusals of a policy say; nil stands for the usual words.
func (g *Gate) Words(policy string) *httplimit.Words {
	if p := g.now.Load().policies[policy]; p != nil {
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

// counted reports whether the verdict has an answer of each of its limits that clients may see.
func counted(v *Verdict) bool {
	answers := len(v.Decision.Answers)
	return v.By == ByLimits && !v.Shadow && (len(v.Limits) == answers || len(v.Limits) == 1 && answers == 0)
}
