package main

import (
	"context"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
)

// slidegateLimiter is driven through Limiter.Allow, which makes the whole Decision, as any user of it does.
type slidegateLimiter struct {
	staysOpen
	limiter *slidegate.Limiter
	quota   int64
}

// slidegateRows are the ways to count that are worth a row each. The first one is the default for quotas above 100; it is
// named, because the loads that are refused have a smaller one.
func slidegateRows() []library {
	row := func(name, algorithm string, limits func(spec) []slidegate.Limit) library {
		return library{name: name, family: own, algorithm: algorithm, open: slidegateOpener(limits)}
	}
	plain := row("slidegate", "sliding window", func(s spec) []slidegate.Limit {
		return []slidegate.Limit{{Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingWindow}}
	})
	plain.expires = true
	log := row("slidegate, sliding-log", "exact log", slidingLog)
	log.ownQuota, log.hotKeys = true, 2
	segments := row("slidegate, 60 segments", "sliding window", func(s spec) []slidegate.Limit {
		return []slidegate.Limit{{Quota: s.quota, Window: s.window.Round(60 * time.Microsecond), Segments: 60}}
	})
	segments.heavy = true
	return []library{
		plain,
		log,
		row("slidegate, token-bucket", "token bucket", func(s spec) []slidegate.Limit {
			return []slidegate.Limit{{Quota: s.quota, Window: s.window, Algorithm: slidegate.TokenBucket}}
		}),
		segments,
		row("slidegate, anchor first", "sliding window", func(s spec) []slidegate.Limit {
			return []slidegate.Limit{{Quota: s.quota, Window: s.window, Anchor: slidegate.AnchorFirst}}
		}),
		row("slidegate, two limits", "sliding window", func(s spec) []slidegate.Limit {
			return []slidegate.Limit{
				{Name: "short", Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingWindow},
				{Name: "long", Quota: 10 * s.quota, Window: 10 * s.window, Algorithm: slidegate.SlidingWindow},
			}
		}),
	}
}

// mostLogged is the largest quota of a sliding log.
const mostLogged = 10_000

// slidingLog is the limit of the sliding-log row. A log takes quotas up to 10,000 only. To be asked on one key for
// more than that and still admit, it gets the shortest window there is; every decision then also drops old units.
func slidingLog(s spec) []slidegate.Limit {
	l := slidegate.Limit{Quota: s.quota, Window: s.window, Algorithm: slidegate.SlidingLog}
	if s.quota > mostLogged {
		l.Quota = mostLogged
		if s.keys == 0 {
			l.Window = time.Millisecond
		}
	}
	return []slidegate.Limit{l}
}

// slidegateOpener opens a store that has room for the keys, a key counted once for each limit, as MaxKeys wants it.
func slidegateOpener(limits func(spec) []slidegate.Limit) func(spec) (limiter, error) {
	return func(s spec) (limiter, error) {
		faced := limits(s)
		store, err := memstore.New(memstore.Options{MaxKeys: s.keys * len(faced)})
		if err != nil {
			return nil, err
		}
		l, err := slidegate.New(store, faced...)
		if err != nil {
			return nil, err
		}
		return &slidegateLimiter{limiter: l, quota: faced[0].Quota}, nil
	}
}

func (s *slidegateLimiter) Allow(key string) bool {
	d, err := s.limiter.Allow(context.Background(), key)
	if err != nil {
		panic(err) // a store in memory has no reason to fail
	}
	return d.Allowed
}

// used tells how many units a key has used, without using any.
func (s *slidegateLimiter) used(key string) int64 {
	d, err := s.limiter.Peek(context.Background(), key)
	if err != nil {
		panic(err)
	}
	return s.quota - d.Remaining
}
