package main

import (
	"context"
	"slices"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// slidegateLimiter calls Limiter.Allow as users do, which makes the whole Decision.
type slidegateLimiter struct {
	limiter *slidegate.Limiter
	done    func()
}

func (s *slidegateLimiter) Close() { s.done() }

// The names of the rows of Slidegate, one for each way to count.
const (
	rowDefault = "slidegate, default"
	rowWindow  = "slidegate" // the counter of one part, which the others are compared with
	rowLog     = "slidegate, sliding-log"
	rowSix     = "slidegate, 6 parts, whole"
	rowSixty   = "slidegate, 60 parts, whole"
	rowBucket  = "slidegate, token-bucket"
)

// defaultRow is the limit with only a quota and a window.
func defaultRow() library { return slidegateRow(rowDefault, "the default", slidegate.Limit{}) }

// slidegateRows are the rows of Slidegate that all scenarios have.
func slidegateRows() []library {
	plain := slidegateRow(rowWindow, "sliding window", slidegate.Limit{Algorithm: slidegate.SlidingWindow})
	plain.expires = true
	log := library{name: rowLog, family: own, algorithm: "exact log", open: slidegateOpener(slidingLog)}
	log.ownQuota, log.hotKeys = true, 2
	sixty := slidegateRow(rowSixty, "sliding window", inParts(60))
	sixty.heavy = true
	return []library{
		plain,
		log,
		slidegateRow(rowBucket, "token bucket", slidegate.Limit{Algorithm: slidegate.TokenBucket}),
		slidegateRow(rowSix, "sliding window", inParts(6)),
		sixty,
		slidegateRow("slidegate, anchor first", "sliding window", slidegate.Limit{Anchor: slidegate.AnchorFirst}),
		{name: "slidegate, two limits", family: own, algorithm: "sliding window", open: slidegateOpener(func(s spec) []slidegate.Limit {
			return []slidegate.Limit{
				{Name: "short", Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingWindow},
				{Name: "long", Quota: 10 * s.quota, Window: 10 * s.window, Algorithm: slidegate.SlidingWindow},
			}
		})},
	}
}

// slidegateRow is a row with one limit, which has the quota and the window of the spec.
func slidegateRow(name, algorithm string, l slidegate.Limit) library {
	return library{name: name, family: own, algorithm: algorithm, open: slidegateOpener(func(s spec) []slidegate.Limit {
		l.Quota, l.Window = s.quota, s.window
		if l.Segments > 1 {
			l.Window = l.Window.Round(time.Duration(l.Segments) * time.Microsecond)
		}
		return []slidegate.Limit{l}
	})}
}

// inParts divides windows into parts, of which the oldest counts in full, so that no window is ever exceeded.
func inParts(n int) slidegate.Limit {
	return slidegate.Limit{Algorithm: slidegate.SlidingWindow, Segments: n, Overlap: slidegate.OverlapWhole}
}

// maxLogged is the largest quota of a sliding log.
const maxLogged = 10_000

// slidingLog is the limit of the sliding-log row. A log takes quotas up to 10,000 only. To admit more than that on one key, it gets
// the shortest possible window; every decision then also drops old units.
func slidingLog(s spec) []slidegate.Limit {
	l := slidegate.Limit{Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingLog}
	if s.quota > maxLogged {
		l.Quota = maxLogged
		if s.keys == 0 {
			l.Window = time.Millisecond
		}
	}
	return []slidegate.Limit{l}
}

// slidegateOpener opens a store with space for the keys under any limit, unless its memory is bounded.
func slidegateOpener(limits func(spec) []slidegate.Limit) func(spec) (limiter, error) {
	return func(s spec) (limiter, error) {
		given := limits(s)
		bytes := s.bytes
		if bytes == 0 {
			bytes = 64<<20 + 4096*int64(s.keys)*int64(len(given))
		}
		opts, done := memstore.Options{MaxBytes: bytes}, func() {}
		store, err := memstore.New(opts)
		if s.folder != "" && err == nil {
			store, done, err = folderStore(s.folder, opts)
		}
		if err != nil {
			return nil, err
		}
		l, err := slidegate.New(store, given...)
		if err != nil {
			return nil, err
		}
		return &slidegateLimiter{limiter: l, done: done}, nil
	}
}

func (s *slidegateLimiter) Allow(key string) bool {
	d, err := s.limiter.Allow(context.Background(), key)
	if err != nil {
		panic(err) // a store in memory has no reason to fail
	}
	return d.Allowed
}

// spend takes several units at once, and reports whether they were granted.
func (s *slidegateLimiter) spend(key string, units int64) bool {
	d, err := s.limiter.AllowN(context.Background(), key, units)
	if err != nil {
		panic(err)
	}
	return d.Allowed
}

// slidegateRowNamed returns one of the rows of Slidegate.
func slidegateRowNamed(name string) library {
	rows := slidegateRows()
	return rows[slices.IndexFunc(rows, func(l library) bool { return l.name == name })]
}
