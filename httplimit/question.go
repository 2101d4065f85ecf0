package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// question is what one request asks of the policies that match it.
type question struct {
	m        *Middleware
	policies []*policy
	claims   []slidegate.Claim
	owner    []int // which policy a claim is of
	items    []*HeaderItem
	err      error // a plan that cannot be told about

	reservation *slidegate.Reservation // what was taken, if a policy has an After
	limiter     *slidegate.Limiter     // from whom
}

// ask collects the claims of a request.
func (m *Middleware) ask(r *http.Request, policies []*policy) *question {
	q := &question{m: m, policies: policies}
	q.claims, q.owner = make([]slidegate.Claim, 0, len(policies)), make([]int, 0, len(policies)) // mostly a limit each
	for i, p := range policies {
		key, cost := p.Key(r), p.cost(r)
		limits, items := p.limits, p.items
		if plan := p.plan(r); len(plan) > 0 {
			var err error
			limits, items, err = p.planned(plan)
			q.err = cmp.Or(q.err, err) // one that is wrong must not be forgotten over the next, which is right
		}
		for _, limit := range limits {
			q.claims = append(q.claims, slidegate.Claim{Limit: limit, Key: key, Cost: cost})
			q.owner = append(q.owner, i)
		}
		if i == 0 {
			q.items = slices.Clip(items) // all of them, mostly; to append makes a copy
		} else {
			q.items = append(q.items, items...)
		}
	}
	return q
}

// decide asks the limiter, and goes on as the options say if that fails.
func (q *question) decide(r *http.Request) Event {
	ctx, cancel := q.m.bounded(r.Context())
	defer cancel()
	d, err := q.take(ctx, r, q.m.limiter)
	if err != nil {
		return q.failed(r, err)
	}
	return Event{Policy: q.decidedBy(&d), Decision: d}
}

// failed decides when the store could not.
func (q *question) failed(r *http.Request, err error) Event {
	if q.m.opts.Fallback != nil {
		if d, again := q.take(r.Context(), r, q.m.opts.Fallback); again == nil {
			d.Flags |= rule.FallbackLocal
			return Event{Policy: q.decidedBy(&d), Decision: d, Err: err}
		}
	}
	d := slidegate.Decision{Allowed: true, Flags: rule.FallbackOpen}
	if q.m.opts.FailClosed {
		d = slidegate.Decision{Flags: rule.FallbackClosed}
	}
	return Event{Policy: q.policies[0].Name, Decision: d, Err: err}
}

// decidedBy returns the name of the policy whose limit decided.
func (q *question) decidedBy(d *slidegate.Decision) string {
	return q.policies[q.owner[d.Index]].Name
}

// take asks one limiter.
func (q *question) take(ctx context.Context, r *http.Request, from *slidegate.Limiter) (slidegate.Decision, error) {
	if q.err != nil {
		return slidegate.Decision{}, q.err
	}
	claims := from.For(q.claims...)
	if q.m.opts.Group != nil {
		claims = claims.InGroup(q.m.opts.Group(r))
	}
	if !q.settles() {
		return claims.Allow(ctx)
	}
	reservation, d, err := claims.Reserve(ctx)
	if err == nil && d.Allowed {
		q.reservation, q.limiter = &reservation, from
	}
	return d, err
}

// settles tells whether a policy wants to know the response before it charges for good.
func (q *question) settles() bool {
	for _, p := range q.policies {
		if p.After != nil && !p.Shadow {
			return true
		}
	}
	return false
}

// serveAndSettle serves an admitted request and then charges what it did cost.
func (q *question) serveAndSettle(w http.ResponseWriter, r *http.Request, next http.Handler) {
	record := &recorder{ResponseWriter: w}
	finished := false
	defer func() {
		if !finished && record.status == 0 {
			record.status = http.StatusInternalServerError // the handler panicked, and still does
		}
		record.begin()
		q.settle(r, record)
	}()
	next.ServeHTTP(record, r.WithContext(context.WithValue(r.Context(), saidKey{}, record)))
	finished = true
}

func (q *question) settle(r *http.Request, record *recorder) {
	actual := make([]int64, len(q.claims))
	for i, claim := range q.claims {
		p := q.policies[q.owner[i]]
		switch {
		case p.After == nil:
			actual[i] = claim.Cost
		case i > 0 && q.owner[i] == q.owner[i-1]:
			actual[i] = actual[i-1] // another limit of the same policy, whose After has spoken
		default:
			actual[i] = p.After(r, record.response(claim.Cost))
		}
	}
	// The client may have gone, and what it used counts all the same.
	ctx, cancel := q.m.bounded(context.WithoutCancel(r.Context()))
	defer cancel()
	if err := q.limiter.Settle(ctx, *q.reservation, actual...); err != nil && q.m.opts.OnDecision != nil {
		q.m.opts.OnDecision(r, Event{Policy: q.policies[0].Name, Err: err})
	}
}
