// Package memcached keeps entries of a kvstore.Store in memcached.
//
//	client := memcache.New("localhost:11211")
//	engine, err := memcached.Open(ctx, client, memcached.Options{ClockServer: "localhost:11211"})
//	...
//	st, err := kvstore.New(engine, kvstore.Options{})
//
// memcached is a cache: what it forgets, limits forget. A restart forgets everything, and then every key has its whole quota again;
// between restarts nothing is admitted twice. A server that is full evicts entries, whose keys have their whole quota again too,
// unless it runs with -M, which makes it answer with an error instead: run it with -M, or with far more memory than the keys of the
// longest window need. A server behind a proxy such as mcrouter, or one that a client moves keys away from when it is down, can
// hold a key twice: do not use either.
//
// The clock is that of one server, to a fraction of a millisecond, and never that of this machine. memcached's own answer is
// no help: the time in "stats" is in whole seconds, falls behind, and jumps. But its log for watchers has microseconds, so every few
// seconds the engine watches for a few milliseconds while it asks for a name that does not exist, and reads when the server says that it
// was asked. Package serverclock has the details.
//
// One case is left to chance. memcached numbers all writes since its start, so a swap that was read before a restart and arrives after
// it succeeds if the entry was written again meanwhile and happens to have got the same number. What was admitted for that key since
// the restart is forgotten then. A decision takes at most the store's Timeout, so this can happen only for so long after a restart.
package memcached
