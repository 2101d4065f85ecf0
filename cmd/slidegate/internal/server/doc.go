// Package server is the service: it opens the store, runs the policies of a file over it, and listens on the doors through
// which programs in any language ask (HTTP with JSON, forward-auth, Envoy's rate limit service, RESP). It also does what a
// service needs besides: TLS, tokens, bounds on what a client may hold, metrics, reloading, saving what is in memory, and
// an orderly end.
package server
