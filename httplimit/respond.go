package httplimit

import (
	"net/http"

	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// Respond limits a request inside its handler, by a key that the handler has found out, such as a user in the body. It applies one policy,
// whose name is "" if the only policy has none, and reports whether it has responded. If the request is refused, Respond writes the whole
// response, as Wrap does, and returns true: the handler is done. If it is admitted, Respond sets the header fields, and returns false: the
// handler goes on, and writes the response.
//
//	if limits.Respond(w, r, "login", user) {
//		return
//	}
//
// The key is counted as if the policy's Key had returned it. An empty key stands for the one that the policy's Key returns, and if that is
// empty too, for the client's address. ByHandler is the Key of policies that apply here alone. Match, Skip and CostAfter have no effect: the
// handler chooses the policy, and its response is not known yet. An in-flight limit, which nothing would release, and a name that no policy
// has are mistakes: the request is refused with 500, and OnDecision gets the error.
func (m *Middleware) Respond(w http.ResponseWriter, r *http.Request, name, key string) (responded bool) {
	index, err := m.set.Index(name)
	if err != nil {
		return !m.admit(w, r, &policy.Decision{Policy: name, Err: withPackage(err), Mistake: true, Refused: true}, nil)
	}
	var part engine.Part
	m.policies[index].part(r, key, &m.opts, &part)
	q := m.set.Begin()
	defer q.End()
	q.Add(part)
	q.Record = m.opts.OnDecision != nil
	if m.opts.Group != nil {
		q.Group = m.opts.Group(r)
	}
	var v policy.Decision
	q.Decide(r.Context(), rule.Take, &v)
	for _, tried := range q.Trials() {
		m.opts.OnDecision(r, tried)
	}
	return !m.admit(w, r, &v, q.Decided())
}
