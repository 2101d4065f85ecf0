// Package xds receives rules for Envoy from a management server, as envoyproxy/ratelimit does with
// CONFIG_TYPE=GRPC_XDS_SOTW: over an aggregated discovery stream in the state-of-the-world variant of the protocol.
// Each set of rules replaces the previous one, so rules that it omits are withdrawn. An invalid set is rejected as a
// whole, with the reason sent to the server; while the server is unreachable, the last set stays in force.
package xds
