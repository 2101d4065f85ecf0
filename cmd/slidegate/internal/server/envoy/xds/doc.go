// Package xds gets rules for Envoy from a management server, as envoyproxy/ratelimit does with CONFIG_TYPE=GRPC_XDS_SOTW: over an
// aggregated discovery stream in the state-of-the-world variant of the protocol. What a server sends takes the place of what it sent
// before, so that what it leaves out is withdrawn. What is wrong is rejected as a whole, and the server is told why; while the
// server cannot be reached, what it sent last stays in force.
package xds
