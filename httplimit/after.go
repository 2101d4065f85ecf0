package httplimit

import "net/http"

// CostAfter returns the actual cost of a request, once its response is known. It must not be negative.
type CostAfter func(r *http.Request, response Response) int64

// Response describes the response to a request.
type Response struct {
	Status int   // as the handler wrote it, or 200 if it wrote none; 500 if it panicked before that
	Bytes  int64 // of the body that the handler wrote, even if it is not sent, as for HEAD
	Cost   int64 // set by SetCost, or otherwise the cost at which the request was admitted
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
	return func(_ *http.Request, response Response) int64 { return ceil(response.Bytes, bytesPerUnit) }
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

// SetCost lets a handler set the actual cost of the request that it serves, for policies with a CostAfter. It reports whether
// there is such a policy. With several middlewares around the handler it sets the cost for all of them. The last call counts.
// It is safe for concurrent use, and has no effect once the handler has returned.
func SetCost(r *http.Request, cost int64) bool {
	found := false
	for c := recorderOf(r); c != nil; c = c.outer {
		if c.settles {
			c.cost.Store(&cost)
			found = true
		}
	}
	return found
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
