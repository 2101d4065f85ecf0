package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/slidegate/slidegate"
)

// Options are what a Middleware has besides its limiter. The zero value holds every address that connects to the limiter's
// own limits, tells what is left in the headers of the newest IETF draft, and lets requests pass when the store fails.
type Options struct {
	// Policies are what requests face. Of several that match, all admit and all are charged, or none is. If there is none,
	// it is the zero Policy.
	Policies []Policy
	// Headers is how responses tell what is left.
	Headers Headers
	// Body is what a refusal says.
	Body Body
	// Refuse answers a refused request instead of Body. Headers and Retry-After are set already; it writes the status, which
	// should be 429, or 503 if the flags of the decision say rule.FallbackClosed.
	Refuse func(w http.ResponseWriter, r *http.Request, event Event)
	// FailClosed refuses with 503 when the store cannot decide. Otherwise requests pass: an outage of the limiter is then
	// not one of the service.
	FailClosed bool
	// Fallback decides when the store cannot: a limiter over a memstore, say. It decides by the limits of the policies; its
	// own have no part in it. FailClosed says what happens if it fails too.
	Fallback *slidegate.Limiter
	// Timeout is how long a decision may take before it counts as failed, and settling what a request did cost; 0 leaves the
	// first to the request's context, and the second, which goes on when the client has gone, to the store.
	Timeout time.Duration
	// Group names the group of a request's charges, for stores made of several nodes; see slidegate.Claims.InGroup.
	Group func(*http.Request) string
	// OnDecision is called with every decision, before the handler. It must be quick and safe for concurrent use.
	OnDecision func(r *http.Request, event Event)
}

// Event is a decision as OnDecision sees it.
type Event struct {
	// Policy is the name of the policy that decided, or the first that was asked if none could.
	Policy string
	// Decision is what the limits said. Its flags tell whether the store decided or, because it could not, the options: the
	// fallback (rule.FallbackLocal), let pass (rule.FallbackOpen), refuse (rule.FallbackClosed).
	Decision slidegate.Decision
	// Err is why the store could not decide, or could not settle afterwards what a request did cost; then there is no
	// decision, and Decision.Flags and Decision.At are 0.
	Err error
	// Shadow says that the policy is only tried out: whatever it decided, it refused nothing.
	Shadow bool
	// Refused says that the request was refused.
	Refused bool
}

// Middleware limits requests. It is safe for concurrent use. The zero value is not usable; New makes it.
type Middleware struct {
	limiter  *slidegate.Limiter
	opts     Options
	policies []*policy
	simple   *policy // the only one, if every request faces it and it can be decided alone
}

// New returns a middleware over a limiter, or an error that says which option is wrong.
func New(limiter *slidegate.Limiter, opts Options) (*Middleware, error) {
	switch {
	case limiter == nil:
		return nil, errors.New("httplimit: limiter: must not be nil; slidegate.New makes one")
	case opts.Headers >= dialects:
		return nil, fmt.Errorf("httplimit: headers: %d is not a dialect", opts.Headers)
	case opts.Body >= bodies:
		return nil, fmt.Errorf("httplimit: body: %d is not one", opts.Body)
	case opts.Timeout < 0:
		return nil, fmt.Errorf("httplimit: timeout: must not be negative, it is %v", opts.Timeout)
	}
	m := &Middleware{limiter: limiter, opts: opts}
	given := opts.Policies
	if len(given) == 0 {
		given = []Policy{{}}
	}
	for _, one := range given {
		p, err := newPolicy(limiter, one, len(given) > 1)
		if err != nil {
			return nil, err
		}
		m.policies = append(m.policies, p)
	}
	if err := checkNames(m.policies); err != nil {
		return nil, err
	}
	if err := m.checkTogether(); err != nil {
		return nil, err
	}
	if only := m.policies[0]; len(m.policies) == 1 && only.always() && m.alone(only) {
		m.simple = only
	}
	return m, nil
}

// checkTogether returns an error if the fallback could not decide by a policy, or a store not by all those at once that
// every request faces. Found out at the first request, that would let it pass.
func (m *Middleware) checkTogether() error {
	var always []slidegate.Limit
	for _, p := range m.policies {
		if p.always() && p.Plan == nil {
			always = append(always, p.limits...)
		}
		if m.opts.Fallback == nil {
			continue
		}
		if _, err := m.opts.Fallback.With(p.limits...); err != nil {
			return fmt.Errorf("httplimit: fallback: policy %q: %w", p.Name, err)
		}
	}
	if _, err := m.limiter.With(always...); err != nil {
		return fmt.Errorf("httplimit: policies: %w", err)
	}
	if m.opts.Fallback == nil {
		return nil
	}
	if _, err := m.opts.Fallback.With(always...); err != nil {
		return fmt.Errorf("httplimit: fallback: %w", err)
	}
	return nil
}

// Wrap returns a handler that limits the requests to next.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

// alone tells whether a policy can be decided by a limiter of its own, without a question to put together.
func (m *Middleware) alone(p *policy) bool {
	return p.Plan == nil && p.After == nil && m.opts.Group == nil
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.simple != nil {
		m.serveAlone(w, r, next, m.simple)
		return
	}
	m.serveAny(w, r, next)
}

// serveAlone serves a request that faces one policy, which can be decided alone. Most do, so it is to be quick.
func (m *Middleware) serveAlone(w http.ResponseWriter, r *http.Request, next http.Handler, p *policy) {
	key, cost := p.Key(r), p.cost(r)
	ctx, cancel := m.bounded(r.Context())
	d, err := p.limiter.AllowN(ctx, key, cost)
	cancel()
	if err != nil {
		q := m.ask(r, []*policy{p})
		m.serveDecided(w, r, next, q, q.failed(r, err))
		return
	}
	m.opts.Headers.Write(w.Header(), p.items, &d)
	if m.opts.OnDecision != nil {
		m.opts.OnDecision(r, Event{Policy: p.Name, Decision: d, Refused: !d.Allowed})
	}
	switch {
	case d.Allowed:
		next.ServeHTTP(w, r)
	case m.opts.Refuse == nil:
		m.refuse(w, p.items, &d)
	default:
		m.opts.Refuse(w, r, Event{Policy: p.Name, Decision: d, Refused: true})
	}
}

// serveAny serves a request whatever the policies ask for.
func (m *Middleware) serveAny(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var room [4]*policy
	live := room[:0]
	for _, p := range m.policies {
		switch {
		case !p.matches(r):
		case p.Shadow:
			m.shadow(r, p)
		default:
			live = append(live, p)
		}
	}
	switch {
	case len(live) == 0:
		next.ServeHTTP(w, r)
	case len(live) == 1 && m.alone(live[0]):
		m.serveAlone(w, r, next, live[0])
	default:
		q := m.ask(r, append([]*policy(nil), live...)) // a copy, so that room stays on the stack
		m.serveDecided(w, r, next, q, q.decide(r))
	}
}

// serveDecided serves a request that has been decided.
func (m *Middleware) serveDecided(w http.ResponseWriter, r *http.Request, next http.Handler, q *question, event Event) {
	d := &event.Decision
	m.opts.Headers.Write(w.Header(), q.items, d)
	event.Refused = !d.Allowed
	if m.opts.OnDecision != nil {
		m.opts.OnDecision(r, event)
	}
	switch {
	case event.Refused && m.opts.Refuse != nil:
		m.opts.Refuse(w, r, event)
	case event.Refused:
		m.refuse(w, q.items, d)
	case q.reservation != nil:
		q.serveAndSettle(w, r, next)
	default:
		next.ServeHTTP(w, r)
	}
}

// shadow decides by a policy that is only tried out.
func (m *Middleware) shadow(r *http.Request, p *policy) {
	event := m.ask(r, []*policy{p}).decide(r)
	event.Shadow = true
	if m.opts.OnDecision != nil {
		m.opts.OnDecision(r, event)
	}
}

// bounded returns the context of a question to the store.
func (m *Middleware) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.opts.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, m.opts.Timeout)
}
