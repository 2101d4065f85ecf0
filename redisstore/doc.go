// Package redisstore keeps state in Redis or Valkey, at a URL or over a client that the caller already has (New). One script
// decides every request at the data, by the server's clock and the same rule as in every store, in one round trip;
// requests that are made together share it. The same script remembers settlements, in the same round trip.
//
//	st, err := redisstore.Open(ctx, "redis://localhost:6379")
//	limiter, err := slidegate.New(st, slidegate.PerMinute(100))
//	defer st.Close()
//
// Values contain the version of their format. Those of another version are rejected with an error.
package redisstore
