// Package redisstore keeps state in Redis or Valkey, over a client that the caller already has. Every request is decided
// by one script at the data, by the server's clock and the same rule as in every store, in one round trip; requests that
// come together share it. What was settled is remembered by the same script, in the same round trip.
//
// Values carry the version of their format. Programs of this version and of the one before can share a server; values that a
// newer version wrote are refused with an error.
package redisstore
