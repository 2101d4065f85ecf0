// Package server is the service: it opens the store, runs the policies of a file over it, and serves programs in any language
// over HTTP with JSON, forward-auth, Envoy's rate limit service and RESP. It also provides what a service needs: TLS, tokens,
// bounds on what a client may hold, metrics, reloading, saving the memory store, and graceful shutdown.
package server
