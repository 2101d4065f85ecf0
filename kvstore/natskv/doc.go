// Package natskv keeps entries of a kvstore.Store in a bucket of NATS JetStream.
//
//	engine, err := natskv.Open(ctx, conn, natskv.Options{Replicas: 3})
//	...
//	defer engine.Close()
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// An entry is the last message of one subject of one stream. Every message carries how long it is to live, so the server forgets entries
// by itself; that needs NATS 2.11 or later. A swap is a publish that the server refuses if the last message is another one than
// expected. The bucket is created if it is not there, and again if somebody deletes it: then everything was forgotten.
//
// A user who may do nothing else needs the rights to publish to $KV.<bucket>.>, $JS.API.STREAM.INFO.KV_<bucket>,
// $JS.API.STREAM.MSG.GET.KV_<bucket> and, to create the bucket, $JS.API.STREAM.CREATE.KV_<bucket>, and to subscribe to _INBOX.>.
//
// # Outages
//
// A swap returns when most of the replicas have the value, so what was charged is not forgotten as long as most of them live, and what
// was refused as too late was not written. When a server hands over its lead, as it does when it is shut down, requests wait for
// some milliseconds. When the leader dies, or is cut off from the others, they need 4 to 9 seconds to agree on another one; all
// decisions fail until then, and a store with package failure around it answers as that is told to. While there is no connection
// decisions fail at once. Connect with nats.MaxReconnects(-1), so that the client never gives up.
//
// # Old leaders
//
// A leader of a replicated bucket that is cut off from the other servers does not notice for up to 20 seconds that they have chosen
// another one, and when it is back among them both answer for a moment. What it answers to reads is of the past. It can never let one
// request too many pass, since a charge is a swap, which only most of the servers together can acknowledge. So that it cannot
// answer anything else that is wrong either, the engine trusts reads and refused swaps only while its own writes have been acknowledged
// without a gap of 3 seconds, in which case nobody can have chosen another leader; it writes a small message every second if it has
// nothing else to write. After a gap, and for 22 seconds from then on, every read is confirmed by a write that only the true leader
// acknowledges, which takes one more round trip, and a swap that was refused is looked for before it counts as refused.
//
// One case remains, if only some of the servers cannot reach one another: a server that two others can reach may be chosen while the old leader is
// still heard, without any gap. The old one learns that within a second. Until then a request may be refused although units have just been
// given back, or be charged twice, and a peek may show more than there is left.
//
// # The clock
//
// The clock is that of the stream's leader: the engine reads it every few seconds by writing a message and reading the time that
// the server gave to it, and goes on by this machine's monotonic clock in between. Engine.Skew reports by how much that may be off: half
// of a round trip, and what two clocks drift apart until the next look. When another server becomes the leader, its
// clock counts from the next look on; the servers of a cluster should keep their clocks together, as NATS itself asks for.
package natskv
