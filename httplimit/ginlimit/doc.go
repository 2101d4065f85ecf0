// Package ginlimit adapts the middleware of package httplimit to gin.
//
//	limits, err := httplimit.New(limiter, httplimit.Options{})
//	// ...
//	r.Use(ginlimit.New(limits))
//
// Headers, refusals and policies are the same as with net/http. Policies with a CostAfter see the status and the size of the
// response that gin sends, and httplimit.SetCost takes c.Request.
package ginlimit
