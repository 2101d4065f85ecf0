package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// limiter is one library under test, with its state. Allow must be safe for concurrent use.
type limiter interface {
	Allow(key string) bool
	// Close stops the library's background work, so that it can be garbage collected.
	Close()
}

// noClose is embedded by limiters that have nothing to close.
type noClose struct{}

func (noClose) Close() {}

// spec holds the settings of a limiter. Every library gets the same.
type spec struct {
	quota  int64         // units in a window
	window time.Duration // in which the quota may be used
	keys   int           // how many keys the limiter must be able to hold
	bytes  int64         // how much memory it may take, where that can be set; 0 means enough for the keys
	folder string        // where a limiter keeps what a crash must not forget, if it does so; empty means in memory only
	sweep  time.Duration // how often to look for expired keys, where that can be set; 0 means the library's default
}

// library is a row of the tables.
type library struct {
	name      string
	family    string // rows of one library have the same family
	algorithm string
	open      func(spec) (limiter, error)

	keyed    bool // the library keeps the keys itself; otherwise the row has a map of limiters
	aside    bool // the row does more than decide, so it is not a peer for ratios
	ownQuota bool // the row cannot take every quota, so it may refuse where the others admit
	givesUp  bool // the row fails some contended requests with an error, which counts as a refusal
	heavy    bool // the row needs so much memory that it is left out if there are very many keys
	expires  bool // the expiry scenario has the row
	hotKeys  int  // how many keys share the load on one hot key; 0 means 1
}

const own = "slidegate" // the family that the others are compared with

func (l *library) peer() bool { return l.family != own && !l.aside }

// libraries returns all rows, in the order of the tables.
func libraries() []library {
	return slices.Concat(slidegateRows(), []library{
		{name: "x/time/rate, mutex map", family: "x/time/rate", algorithm: "token bucket", open: openRateMutex},
		{name: "x/time/rate, sync.Map", family: "x/time/rate", algorithm: "token bucket", open: openRateSyncMap},
		{name: "httprate, counter", family: "httprate", algorithm: "sliding window", open: openHTTPRate, keyed: true, expires: true},
		{name: "httprate, with headers", family: "httprate", algorithm: "sliding window", open: openHTTPRateHeaders, aside: true},
		{name: "go-limiter", family: "go-limiter", algorithm: "fixed window", open: openGoLimiter, keyed: true, expires: true},
		{name: "ulule/limiter", family: "ulule", algorithm: "fixed window", open: openUlule, keyed: true, expires: true},
		{name: "throttled", family: "throttled", algorithm: "GCRA", open: openThrottled, keyed: true, givesUp: true},
		{name: "throttled, LRU", family: "throttled", algorithm: "GCRA", open: openThrottledLRU, keyed: true, givesUp: true},
		{name: "tollbooth", family: "tollbooth", algorithm: "token bucket", open: openTollbooth, keyed: true},
		{name: "slidingwindow, sync.Map", family: "slidingwindow", algorithm: "sliding window", open: openSlidingWindow},
	})
}

// families returns the names that -only takes.
func families() []string {
	var names []string
	for _, l := range libraries() {
		if !slices.Contains(names, l.family) {
			names = append(names, l.family)
		}
	}
	for _, row := range redisRows() {
		if row.family != "" && !slices.Contains(names, row.family) {
			names = append(names, row.family)
		}
	}
	for _, row := range pgRows() {
		if row.family != "" && !slices.Contains(names, row.family) {
			names = append(names, row.family)
		}
	}
	return names
}

// selected returns the rows of the families in only, or all rows if it is empty.
func selected(only []string) ([]library, error) {
	for _, name := range only {
		if !slices.Contains(families(), name) {
			return nil, fmt.Errorf("-only: unknown library %q; want some of %s", name, strings.Join(families(), ", "))
		}
	}
	all := libraries()
	if len(only) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(l library) bool { return !slices.Contains(only, l.family) }), nil
}

// noLimiter is a limiter that admits everything, which shows the cost of the harness itself.
type noLimiter struct{ noClose }

func (noLimiter) Allow(key string) bool { return key != "" }

// rowsWhere returns the libraries for which keep returns true.
func rowsWhere(all []library, keep func(*library) bool) []library {
	var some []library
	for i := range all {
		if keep(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}
