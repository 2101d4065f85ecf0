// Package fiberlimit adapts the middleware of package httplimit to fiber v3.
//
//	limits, err := httplimit.New(limiter, httplimit.Options{})
//	// ...
//	app.Use(fiberlimit.New(limits))
//
// Fiber is not built on net/http, so policies see a copy of the request as an *http.Request. Headers, refusals and policies
// are the same as with net/http. Policies with a CostAfter see the status and the size of fiber's response, also when a handler
// returns an error. Handlers use SetCost instead of httplimit.SetCost.
package fiberlimit
