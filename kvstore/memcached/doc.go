// Package memcached keeps entries of a kvstore.Store in memcached.
//
//	client := memcache.New("localhost:11211")
//	engine, err := memcached.Open(ctx, client, memcached.Options{ClockServer: "localhost:11211"})
//	...
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// memcached is a cache: what it forgets, limits forget. A restart forgets everything, and then every key has its whole quota again;
// between restarts no unit is admitted twice. A server that is full evicts entries, and their keys have their whole quota again too,
// unless it runs with -M: then it answers with an error instead. Run it with -M, or with far more memory than the keys of the longest
// window need. Do not put a proxy such as mcrouter in front of it, and do not use a client that moves keys to another server when one
// is down: either can leave a key with two entries.
//
// The clock is that of one server, to a fraction of a millisecond. The time that memcached reports by "stats" is no help: it is in
// whole seconds, falls behind and then jumps. But what it logs for watchers has microseconds. So every few seconds the engine
// watches for a few milliseconds, asks for a name that does not exist, and reads in the log when the server was asked. Package
// serverclock keeps the time in between. When the server's clock is set, processes notice within five seconds, not all at once.
//
// One case is left to chance. memcached numbers all writes since its start, so a swap that was read before a restart and arrives after
// it succeeds if the entry was written again meanwhile and happens to have the same number. What was admitted for that key since
// the restart is then forgotten. A decision takes at most the store's Timeout, so this can happen only for that long after a restart.
package memcached
