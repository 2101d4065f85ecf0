// Package echo5limit adapts the middleware of package httplimit to echo v5. Package echo4limit does so for echo v4.
//
//	limits, err := httplimit.New(limiter, httplimit.Options{})
//	// ...
//	e.Use(echo5limit.New(limits))
//
// Headers, refusals and policies are the same as with net/http. Policies with a CostAfter see the status and the size of the
// response that the client gets, also when a handler returns an error, and httplimit.SetCost takes c.Request().
package echo5limit
