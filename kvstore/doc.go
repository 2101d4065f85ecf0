// Package kvstore keeps state in a key-value engine that can swap a value if nobody has changed it meanwhile: NATS JetStream (package
// kvstore/natskv), memcached (package kvstore/memcached), or any other that satisfies Engine. The rule runs in this process: the
// store reads an entry, decides, and swaps in what has changed; if somebody else was faster, it begins again.
//
// What it promises is what every store does, with three differences:
//
//   - A decision takes two round trips, a read and a swap, and one if this process was the last to write the entry. All who wait for
//     an entry in this process are decided by one swap. A refusal reads and writes nothing.
//   - The clock is the engine's, or one that this process keeps near it; Engine.Now says which, and by how much the clocks of two
//     processes may differ. By that much a window may be too short for a key that several processes share. Time does not
//     go backwards for a key, as everywhere.
//   - An entry is what is decided atomically: all limits of one key, or of one group. A request without a group whose charges have
//     different keys is an error that wraps store.ErrUnsupported. All keys of a group share an entry, and take turns: use
//     groups of few keys.
//
// An entry carries the version of its format and the address of every state in it, so that two keys whose names have the same hash do
// not share counts.
package kvstore
