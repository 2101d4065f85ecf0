package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Options configures a Middleware. The zero value is valid: it applies the limiter's own limits to every address that connects,
// reports what is left in the headers of the newest IETF draft, and counts in this process while the store does not answer.
type Options struct {
	// Policies apply to requests. Of several that match, all admit and all are charged, or none is. If empty, the zero Policy
	// applies. If policies that match the same requests have more limits together than the store decides in one call, New returns
	// an error if their Match shows that; otherwise such requests are refused with 500.
	Policies []Policy
	// Client finds the client's address, for policies without a Key and for lists of addresses. nil trusts no proxy: the
	// address is that of the connection, which behind a proxy is the proxy's.
	Client *clientip.Source
	// Headers is the dialect in which responses report what is left.
	Headers Headers
	// Body is the format of the body of a refusal.
	Body Body
	// Refuse writes the response to a refused request instead of Body. Headers and Retry-After are already set; Refuse writes
	// the status, which should be 429, or 403 if the event is Forbidden, 500 if the event is a Mistake, and 503 if it is Ended
	// (499 if its Err is context.Canceled: the client has left) or the flags of the decision contain rule.FallbackClosed.
	Refuse func(w http.ResponseWriter, r *http.Request, event Event)
	// Failure decides requests that the store does not answer. With store.FailLocal, the default, the same limits decide, counted
	// in this process: while the store is away, N processes together admit up to N quotas, or about one if Instances is N.
	// store.FailClosed refuses with 503, which is right for logins; store.FailOpen admits everything. A refusal that this process has seen
	// stays one. A store that does not answer is not called for a while; see package layer/stack. If the limiter's store already has that
	// layer, the layer decides by this mode, or by its own default if Failure is 0, and the options below have no effect.
	Failure store.Mode
	// Timeout is how long a decision may take before the failure mode decides. 0 means 100ms for a store with round trips; a store
	// in process is called without a deadline. Negative means that the store has no layers: every
	// request calls it, without a deadline, and after an error store.FailOpen admits the request and all other modes refuse it.
	Timeout time.Duration
	// LocalBytes is the most memory that store.FailLocal uses in this process; 0 means the default of memstore.Options.
	LocalBytes int64
	// Instances is how many processes share the limits, by which store.FailLocal divides their quotas; 0 means 1.
	Instances int
	// Group returns the group of a request's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(*http.Request) string
	// OnDecision is called with every decision, before the handler; also with decisions of shadow policies,
	// and with errors. If several policies apply to a request, it is called once for each policy that admitted it, or once for
	// each that refused it: those that would have admitted a refused request were not charged. It is called after the handler with the error if a CostAfter could not be settled or a slot could not be
	// released, and while the handler runs if a slot could not be renewed; those events have an Err, and a decision only if Err
	// is a policy.ErrSlotLost. It must be quick and safe for concurrent use. nil disables it.
	OnDecision func(r *http.Request, event Event)
}

// Event is a decision as passed to OnDecision.
type Event = policy.Decision

// Middleware limits requests. It is safe for concurrent use. The zero value is not usable; call New.
type Middleware struct {
	set      *engine.Set
	opts     Options
	policies []*compiled
	simple   *compiled // the only policy, if it applies to every request and can be decided alone
}

// New returns a middleware over a limiter. An error names the option that is wrong.
func New(limiter *slidegate.Limiter, opts Options) (*Middleware, error) {
	switch {
	case limiter == nil:
		return nil, errors.New("httplimit: limiter: must not be nil; use slidegate.New")
	case opts.Headers >= reply.Dialects:
		return nil, fmt.Errorf("httplimit: headers: unknown Headers %d", opts.Headers)
	case opts.Body >= reply.Bodies:
		return nil, fmt.Errorf("httplimit: body: unknown Body %d", opts.Body)
	}
	m := &Middleware{opts: opts}
	given := opts.Policies
	if len(given) == 0 {
		given = []Policy{{}}
	}
	var rules []engine.Spec
	var matchers []*match.Matcher
	var errs error // all errors, joined
	for i, one := range given {
		p, err := newPolicy(one, i, &m.opts)
		errs = errors.Join(errs, err)
		m.policies, rules, matchers = append(m.policies, p), append(rules, p.Rules()), append(matchers, p.matcher)
		rules[i].Form = p.form
	}
	var err error
	m.set, err = engine.New(limiter, rules, engine.Options{
		Failure: opts.Failure, Timeout: opts.Timeout, Prepare: prepare, LocalBytes: opts.LocalBytes, Instances: opts.Instances,
	})
	if err == nil {
		samples, matches := match.Samples(matchers)
		err = m.set.CheckTogether(len(samples), func(sample, policy int) bool {
			p := m.policies[policy]
			return p.Skip == nil && !p.Key.Given && (p.Plan == nil || len(p.Plans) > 0) && matches(sample, policy)
		}, m.sameKey())
	}
	if err != nil {
		errs = errors.Join(errs, fmt.Errorf("httplimit: %w", err))
	}
	if errs != nil {
		return nil, errs
	}
	for i, p := range m.policies {
		p.slots = m.set.Holds(i)
	}
	if only := m.policies[0]; len(m.policies) == 1 && only.matcher == nil && only.Skip == nil && !only.Key.Given && only.decidesAlone(&m.opts) {
		m.simple = only
	}
	return m, nil
}

// sameKey returns a function that reports whether two policies count by the same key; nil if requests have a group. Keys made
// by the same function, such as those of two headers, are indistinguishable here: an error then comes with the first request
// that both apply to.
func (m *Middleware) sameKey() func(policy, other int) bool {
	if m.opts.Group != nil {
		return nil
	}
	return func(policy, other int) bool {
		return m.policies[policy].Key.SameFunc(m.policies[other].Key)
	}
}

// Wrap returns a handler that limits the requests to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if p := m.simple; p != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serveAlone(w, r, next, p) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serveAny(w, r, next) })
}

// serveAny serves a request by all policies that apply to it.
func (m *Middleware) serveAny(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var room [4]*compiled
	matching := room[:0]
	for _, p := range m.policies {
		if p.matches(r) {
			matching = append(matching, p)
		}
	}
	switch {
	case len(matching) == 0:
		next.ServeHTTP(w, r)
	case len(matching) == 1 && matching[0].decidesAlone(&m.opts):
		m.serveAlone(w, r, next, matching[0])
	default:
		m.serveTogether(w, r, next, matching)
	}
}

// serveAlone serves a request to which one policy applies that can be decided alone. Most requests are like that, so it must be
// fast.
func (m *Middleware) serveAlone(w http.ResponseWriter, r *http.Request, next http.Handler, p *compiled) {
	var part engine.Part
	var v policy.Decision
	p.part(r, "", &m.opts, &part)
	m.set.Decide(r.Context(), rule.Take, &part, &v)
	if v.Mistake && errors.Is(v.Err, policy.ErrSlots) { // its Plan returned slots
		q := m.set.Begin()
		q.Add(part)
		m.serveRequest(w, r, next, q, nil)
		return
	}
	if m.admit(w, r, &v, nil) {
		next.ServeHTTP(w, r)
	}
}

// serveTogether serves a request to which several policies apply, or one that needs more than a decision.
func (m *Middleware) serveTogether(w http.ResponseWriter, r *http.Request, next http.Handler, matching []*compiled) {
	q := m.set.Begin()
	for _, p := range matching {
		var part engine.Part
		p.part(r, "", &m.opts, &part)
		part.Hold = p.CostAfter != nil
		q.Add(part)
	}
	if m.opts.Group != nil {
		q.Group = m.opts.Group(r)
	}
	m.serveRequest(w, r, next, q, matching)
}

// serveRequest serves a request whose parts have been assembled.
func (m *Middleware) serveRequest(w http.ResponseWriter, r *http.Request, next http.Handler, q *engine.Transaction, matching []*compiled) {
	q.Record, q.Slots = m.opts.OnDecision != nil, engine.SlotsHeld
	var v policy.Decision
	q.Decide(r.Context(), rule.Take, &v)
	for _, tried := range q.Trials() {
		m.opts.OnDecision(r, tried)
	}
	if !q.Held() {
		admitted := m.admit(w, r, &v, q.Decided())
		q.End()
		if admitted {
			next.ServeHTTP(w, exempt(r, matching))
		}
		return
	}
	c := m.hold(w, r, q, v.Policy, matching)
	defer c.finish() // also if the handler panics, or OnDecision does
	if m.admit(w, r, &v, q.Decided()) {
		next.ServeHTTP(c.writer(), r.WithContext(context.WithValue(r.Context(), recorderKey{}, c)))
		c.finished = true
	}
}

// admit reports the decision to the client and to the application, and writes the response to a refused request. It reports
// whether the request is admitted. Decided are the verdicts of single policies, if several decided.
func (m *Middleware) admit(w http.ResponseWriter, r *http.Request, v *policy.Decision, decided []policy.Decision) bool {
	var items []*reply.Item
	if v.By == policy.ByLimits && !v.Shadow && !v.Mistake && !v.Ended && v.Note != nil {
		items = v.Note.([]*reply.Item)
		m.opts.Headers.Write(w.Header(), items, &v.Decision, v.Refused)
	}
	if len(decided) == 0 {
		m.report(r, v)
	}
	for i := range decided {
		m.report(r, &decided[i])
	}
	if v.Refused {
		m.writeRefusal(w, r, items, v)
	}
	return !v.Refused
}

// report passes the decision of a policy to the application.
func (m *Middleware) report(r *http.Request, v *policy.Decision) {
	if m.opts.OnDecision != nil && !v.Shadow {
		m.opts.OnDecision(r, *v)
	}
}

// writeRefusal writes a refusal, by Options.Refuse or by default. The items are those of the limits that decided, if any did.
func (m *Middleware) writeRefusal(w http.ResponseWriter, r *http.Request, items []*reply.Item, v *policy.Decision) {
	switch {
	case m.opts.Refuse != nil:
		m.opts.Refuse(w, r, *v)
	case v.Forbidden() && v.By == policy.ByRuling:
		send(w, http.StatusForbidden, m.opts.Body, []byte(blockedBodies[m.opts.Body]))
	case v.Forbidden():
		send(w, http.StatusForbidden, m.opts.Body, []byte(refusedBodies[m.opts.Body]))
	case v.Mistake:
		send(w, http.StatusInternalServerError, m.opts.Body, []byte(mistakeBodies[m.opts.Body]))
	case v.Ended && errors.Is(v.Err, context.Canceled):
		w.WriteHeader(reply.StatusClientLeft)
	case v.Ended:
		undecided := reply.Undecided()
		m.refuse(w, nil, nil, &undecided)
	case v.By == policy.ByRuling:
		reply.SetRetryAfter(w.Header(), &v.Decision)
		m.refuse(w, nil, nil, &v.Decision)
	default:
		m.refuse(w, m.textsOf(v.Policy), items, &v.Decision)
	}
}

// textsOf returns the texts of a policy's refusals.
func (m *Middleware) textsOf(policy string) *reply.Texts {
	for _, p := range m.policies {
		if p.Name == policy {
			return p.texts
		}
	}
	return nil
}

// Texts for clients that are blocked for good, or are on a block list or have a plan that admits nothing, and for requests that could not be decided because the
// policies are wrong: the client is not responsible for that, so the response does not give the reason.
var (
	blockedBodies = fixedBodies(http.StatusForbidden, "Forbidden", "The client is blocked.", "blocked")
	refusedBodies = fixedBodies(http.StatusForbidden, "Forbidden", "The client is refused access.", "refused")
	mistakeBodies = fixedBodies(http.StatusInternalServerError, "Internal server error", "The rate limit could not be checked.", "rate limit misconfigured")
)

// fixedBodies returns the bodies of a refusal that says nothing about limits, by format.
func fixedBodies(status int, title, detail, short string) [reply.Bodies]string {
	return [reply.Bodies]string{
		BodyProblem: fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`+"\n", title, status, detail),
		BodyJSON:    fmt.Sprintf(`{"error":%q}`+"\n", short), BodyText: detail + "\n", BodyNone: "",
	}
}
