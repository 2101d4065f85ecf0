// Package natskv keeps the entries of a kvstore.Store in a bucket of NATS JetStream.
//
//	st, err := natskv.Open(ctx, "nats://localhost:4222?replicas=3")
//	limiter, err := slidegate.New(st, slidegate.PerMinute(100))
//	defer st.Close()
//
// Over a connection that the caller already has:
//
//	engine, err := natskv.New(ctx, conn, natskv.Options{Replicas: 3})
//	...
//	defer engine.Close()
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// An entry is the last message of one subject of the bucket's stream. Every message carries a time to live, so the server itself
// removes entries; that needs NATS 2.11 or later. A swap is a publish that the server rejects unless the last message is the expected
// one. If the bucket is deleted, the engine creates it again within seconds, and all counts start from zero.
//
// A user with restricted rights must be allowed to publish to $KV.<bucket>.>, $JS.API.STREAM.INFO.KV_<bucket>,
// $JS.API.STREAM.MSG.GET.KV_<bucket> and, to create the bucket, $JS.API.STREAM.CREATE.KV_<bucket>, and to subscribe to _INBOX.>.
//
// # Outages
//
// A swap returns when a majority of the replicas has the value, so a charge survives as long as a majority does. When a server
// hands over its leadership, as it does when it is shut down, requests wait for some milliseconds. When the leader dies or is cut
// off, the other servers need 4 to 9 seconds to elect a new one, and decisions fail until then; package failure decides for callers
// in the meantime. Without a connection, decisions fail at once, and so do those that are under way when it breaks.
//
// Connect with nats.MaxReconnects(-1), so that the client never gives up, and with nats.ReconnectBufSize(-1), so that it does not keep
// requests to send them later.
//
// # Old leaders
//
// A leader that is cut off from the other servers takes up to 20 seconds to notice that they have elected a new one, and when
// it rejoins them, both answer for a short time. An old leader cannot admit a request, because a swap needs a majority of the
// servers. But its reads are out of date, and it may reject a swap that the new leader has accepted.
//
// The engine therefore trusts reads and rejected swaps only while its own writes have been acknowledged without a gap of 3 seconds,
// since servers wait for at least 4 seconds before they elect a new leader. It writes a small message every second if it has nothing else
// to write. After a gap, and for the next 22 seconds, it confirms every read by a conditional write, which takes another round trip
// and which only the current leader can acknowledge, and it checks whether a rejected swap was really rejected.
//
// This does not cover one case: if only some of the servers lose contact with one another, a new leader can be elected while the
// old one is still connected to the rest. The old leader then learns about it within a second. Until it does, a request may be
// refused although units have just been refunded, a charge may be counted twice, and a peek may report more units than are left.
// Even then no request is admitted beyond its limit.
//
// # The clock
//
// The engine follows the clock of the stream's leader. Every few seconds the engine writes a message and reads the timestamp that
// the server gave it; in between, it follows this machine's monotonic clock. Traits.Skew is twice as far as that may be off: half a
// round trip, and the drift of the two clocks since the last reading. When another server becomes the leader, its clock applies
// from the next reading on. Keep the clocks of the servers synchronized, as NATS itself recommends: a window may be too short,
// once, by the difference between their clocks.
package natskv
