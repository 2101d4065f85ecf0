// Package httplimit limits HTTP requests. On the server it wraps any http.Handler: it identifies the client, calls a
// slidegate.Limiter for a decision, reports what is left in header fields, and refuses with 429 and an exact Retry-After. On
// the client it wraps an http.RoundTripper that obeys its own limit and the responses of servers.
//
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	// ...
//	limits, err := httplimit.New(limiter, httplimit.Options{})
//	// ...
//	http.ListenAndServe(addr, limits.Wrap(mux))
package httplimit
