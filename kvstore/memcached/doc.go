// Package memcached keeps the entries of a kvstore.Store in memcached.
//
//	st, err := memcached.Open(ctx, "memcached://localhost:11211")
//	limiter, err := slidegate.New(st, slidegate.PerMinute(100))
//	defer st.Close()
//
// Over a client that the caller already has:
//
//	client := memcache.New("localhost:11211")
//	engine, err := memcached.New(ctx, client, memcached.Options{ClockServer: "localhost:11211"})
//	...
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// memcached is a cache: limits forget what it forgets. A restart forgets everything, and then every key has its whole quota again;
// between restarts no unit is admitted twice. A server that is full evicts entries, and their keys have their whole quota again
// too, unless it runs with -M: then it returns an error instead. Run it with -M, or with far more memory than the keys of the
// longest window need. Do not put a proxy such as mcrouter in front of it, and do not use a client that moves keys to another
// server when one is down: either can leave a key with two entries.
//
// A client with several servers stores each entry on one of them, chosen by the entry's name and the order of the servers. An entry
// has all limits of a key, or all keys of a group, so a decision never involves two servers. But every process must list the same
// servers in the same order: otherwise a key has two entries, and its whole quota in each. A changed list also moves keys to other
// servers, where they have their whole quota again.
//
// The engine follows the clock of one server, to a fraction of a millisecond. The time that memcached reports in "stats" is too
// coarse: it is in whole seconds, falls behind and then jumps. But its log for watchers has microseconds. So every few seconds the
// engine watches that log for a few milliseconds, reads names that do not exist, and finds in the log when the server received
// those reads. Package serverclock keeps the time in between. When the server's clock is set, processes notice within five seconds,
// not all at the same time.
//
// One case is left to chance. memcached numbers all writes since its start, so a swap that was read before a restart and arrives
// after it succeeds if the entry has been written again and happens to have the same number. What was admitted for that key since
// the restart is then forgotten. A decision takes at most the store's Timeout, so this can happen only for that long after a
// restart.
package memcached
