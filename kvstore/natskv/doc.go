// Package natskv keeps entries of a kvstore.Store in a bucket of NATS JetStream.
//
//	engine, err := natskv.Open(ctx, conn, natskv.Options{Replicas: 3})
//	...
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// An entry is one subject of one stream, of which the last message counts. Every message carries how long it is to live, so that the
// server forgets entries by itself; that needs NATS 2.11 or later. Reads go to the leader of the stream, and every write is agreed on
// by its replicas before it is acknowledged: what was charged is not forgotten as long as most of the replicas live.
//
// The clock is that of the stream's leader: the engine looks at it every few seconds by writing a message and reading the time that
// the server gave it, and goes on by this machine's monotonic clock in between. Engine.Skew reports how far that may be off: half
// of the fastest round trip, and what two clocks drift apart until the next look. When another server becomes the leader, its
// clock counts; servers of a cluster should keep their clocks together, as NATS itself asks for.
package natskv
