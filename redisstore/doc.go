// Package redisstore keeps state in Redis or Valkey, over a client that the caller already has. One script decides
// every request at the data, by the server's clock and the same rule as in every store, in one round trip; requests
// that are made together share it. The same script remembers settlements, in the same round trip.
//
// Values contain the version of their format. Those written by a newer version are rejected with an error.
package redisstore
