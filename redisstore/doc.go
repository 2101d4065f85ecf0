// Package redisstore keeps state in Redis or Valkey, over a client that the caller already has. Every request is decided
// by one script at the data, by the server's clock and the same rule as in every store, in one round trip; requests that
// come together share it.
package redisstore
