package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// CostAfter returns the actual cost of a request, once its response is known. It must not be negative.
type CostAfter func(r *http.Request, response Response) int64

// Response describes the response to a request.
type Response struct {
	Status int   // as the handler wrote it, or 200 if it wrote none; 500 if it panicked before that
	Bytes  int64 // of the body that the handler wrote, even if it is not sent, as for HEAD
	// Cost is what the handler set by SetCost for the policy, if CostSet is true, or otherwise the cost at which the policy
	// admitted the request.
	Cost    int64
	CostSet bool
}

// CostFromHandler charges the cost that the handler sets by SetCost, or otherwise the cost at which the request was admitted.
func CostFromHandler() CostAfter {
	return func(_ *http.Request, response Response) int64 { return response.Cost }
}

// CostOfBytes charges one unit per bytesPerUnit bytes of the response's body, rounded up. It panics if bytesPerUnit is below 1.
func CostOfBytes(bytesPerUnit int64) CostAfter {
	if bytesPerUnit < 1 {
		panic("httplimit: CostOfBytes: bytesPerUnit must be at least 1")
	}
	return func(_ *http.Request, response Response) int64 {
		return response.Bytes/bytesPerUnit + min(1, response.Bytes%bytesPerUnit)
	}
}

// CostIfStatus charges only requests whose status counts, and refunds the others. If only failed logins count, a client that
// knows the password is never locked out.
func CostIfStatus(counts func(status int) bool) CostAfter {
	return func(_ *http.Request, response Response) int64 {
		if counts(response.Status) {
			return response.Cost
		}
		return 0
	}
}

type recorderKey struct{}

// SetCost lets a handler set the actual cost of the request that it serves, for the policies with a CostAfter that apply to it:
// those of these names, or all of them if there are none. With several middlewares around the handler, it sets the cost for all
// of them. The last call counts. SetCost is safe for concurrent use, and has no effect once the handler has returned.
//
// It returns an error, and sets nothing, if the cost is invalid, or if a name, or the request, has no such policy. It returns
// nil if the client is exempt.
func SetCost(r *http.Request, cost int64, policies ...string) error {
	if cost < 0 || cost > rule.MaxQuota {
		return fmt.Errorf("httplimit: SetCost: %w: must be 0 to %d, not %d", slidegate.ErrCost, int64(rule.MaxQuota), cost)
	}
	for _, name := range policies {
		if !setCosts(r, func(p *compiled) bool { return p.Name == name }, nil) {
			return fmt.Errorf("httplimit: SetCost: no policy %q with a CostAfter applies to this request", name)
		}
	}
	if !setCosts(r, func(p *compiled) bool { return len(policies) == 0 || slices.Contains(policies, p.Name) }, &cost) {
		return errors.New("httplimit: SetCost: no policy with a CostAfter applies to this request")
	}
	return nil
}

// setCosts sets the cost, unless it is nil, for some of the policies with a CostAfter that apply to a request. It reports whether
// there are any.
func setCosts(r *http.Request, which func(*compiled) bool, cost *int64) (found bool) {
	for c := recorderOf(r); c != nil; c = c.outer {
		c.mu.Lock()
		for i := range c.costs {
			if own := &c.costs[i]; which(own.policy) {
				if found = true; cost != nil {
					own.cost, own.set = *cost, true
				}
			}
		}
		c.mu.Unlock()
	}
	return found
}

// handlerCost is what a handler sets by SetCost for one policy.
type handlerCost struct {
	policy *compiled
	cost   int64
	set    bool
}

// handlerCosts returns an entry for each policy with a CostAfter.
func handlerCosts(matching []*compiled) (costs []handlerCost) {
	for _, p := range matching {
		if p.CostAfter != nil {
			costs = append(costs, handlerCost{policy: p})
		}
	}
	return costs
}

// exempt returns a request whose handler may call SetCost although there is nothing to settle.
func exempt(r *http.Request, matching []*compiled) *http.Request {
	costs := handlerCosts(matching)
	if costs == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), recorderKey{}, &recorder{costs: costs, outer: recorderOf(r)}))
}

// NeedsResponse reports whether the response will be shown to a policy that admitted the request, such as one with a CostAfter.
// It is for adapters of routers, which may have to complete the response before the middleware returns. Otherwise the
// middleware looks at most for a connection that the handler takes over.
func NeedsResponse(r *http.Request) bool {
	for c := recorderOf(r); c != nil; c = c.outer {
		if c.settles {
			return true
		}
	}
	return false
}

// recorderOf returns the recorder of the innermost middleware around the request's handler, or nil.
func recorderOf(r *http.Request) *recorder {
	c, _ := r.Context().Value(recorderKey{}).(*recorder)
	return c
}

// unwrap returns the writer below w, or nil.
func unwrap(w http.ResponseWriter) http.ResponseWriter {
	if wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return wrapper.Unwrap()
	}
	return nil
}
