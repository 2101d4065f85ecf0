// Package kvstore keeps state in any key-value engine that has compare-and-swap: NATS JetStream (package kvstore/natskv) or
// another one behind the Engine interface. The rule runs in this process: the store reads an entry, decides, and swaps in the result;
// if another process changed the entry in the meantime, it starts over.
//
// Package natskv has an Open for a URL. Over a client that the caller already has, and over other engines:
//
//	engine, err := natskv.New(ctx, conn, natskv.Options{})
//	store, err := kvstore.New(engine, kvstore.Options{})
//	limiter, err := slidegate.New(store, slidegate.PerMinute(100))
//
// The store keeps every promise of the Store interface. It differs from a store that decides at its data, such as redisstore, in
// four ways:
//
//   - Round trips. A decision takes two, a read and a swap, or one if this process was the last to change the entry. A refusal
//     takes one, a read, and writes nothing. One swap decides for all callers in this process that wait for the same entry, so a
//     busy key costs few round trips per decision. Processes that compete for an entry retry, and take turns.
//   - The clock. Each process decides by Engine.Now. The clocks of two processes may differ by Traits.Skew, and a window may be too
//     short by that much for a key that both of them use. Time never goes backwards for a key: an entry carries when it was last
//     changed, and a process whose clock is behind that, by up to a second, decides at that time.
//   - Atomicity. What is decided together is one entry: all limits of one key, or all keys of one group. A request without a group
//     whose charges have different keys fails with an error that wraps store.ErrUnsupported. The keys of a group share one entry,
//     which is read and written as a whole, so keep groups small.
//   - The memory of IDs. What holds units, and which calls with an ID were made and reservations settled, is in the entry too, which
//     every change writes as a whole. An entry remembers no more IDs once they take a quarter of the engine's largest value, some
//     10,000 in a megabyte: a call is then charged and flagged rule.NotOnce, and a settlement flagged rule.Unsettled.
//
// An entry carries the version of its format and the full address of every state in it. Names of entries are hashes. Two keys whose
// names collide share an entry, but never their counts.
package kvstore
