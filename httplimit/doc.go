// Package httplimit limits HTTP requests. On the server it wraps any http.Handler: it finds out who asks, decides by a
// slidegate.Limiter, tells the client in headers what is left, and refuses with 429 and a Retry-After that is true. On the
// client it wraps an http.RoundTripper that keeps to a limit of its own and to what servers answer.
//
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//	// ...
//	limits, err := httplimit.New(limiter, httplimit.Options{})
//	// ...
//	http.ListenAndServe(addr, limits.Wrap(mux))
package httplimit
