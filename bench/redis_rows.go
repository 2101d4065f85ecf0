package main

import (
	"context"
	"slices"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// redisRow is a row of the Redis tables.
type redisRow struct {
	name, family, algorithm string
	client                  string // what talks to Redis
	open                    func(*redisServer, spec) (remoteAllow, error)

	atomic bool // no other request is decided between its reads and its writes
	goals  bool // the goals apply to the row
	memory bool // the row's state differs from that of other rows, so its memory is measured
}

// rowIncrAlone is the row that does the least work possible in Redis. It is not a peer but the limit of what is possible.
const rowIncrAlone = "(INCR alone)"

func (row *redisRow) peer() bool { return row.family != own && row.name != rowIncrAlone }

// The clients, as the tables name them.
const (
	viaRueidis  = "rueidis"
	viaPool     = "go-redis"
	viaPipeline = "go-redis, piped"
)

func redisRows() []redisRow {
	return slices.Concat(slidegateRedisRows(), []redisRow{
		{name: "redis_rate", family: "redis_rate", algorithm: "GCRA", client: viaPool, open: openRedisRate, atomic: true, memory: true},
		{name: "redis_rate, piped", family: "redis_rate", algorithm: "GCRA", client: viaPipeline, open: openRedisRatePiped, atomic: true},
		{name: "ulule/limiter", family: "ulule", algorithm: "fixed window", client: viaPool, open: openUluleRedis, atomic: true, memory: true},
		{name: "ulule/limiter, piped", family: "ulule", algorithm: "fixed window", client: viaPipeline, open: openUluleRedisPiped, atomic: true},
		{name: "sorted set", family: "sorted-set", algorithm: "exact log", client: viaPool, open: openSortedSet, memory: true},
		{name: rowIncrAlone, algorithm: "count", client: viaRueidis, open: openIncr, atomic: true, memory: true},
	})
}

// redisRows returns the selected rows, and the one that all are compared with.
func (r *run) redisRows() []redisRow {
	return slices.DeleteFunc(redisRows(), func(row redisRow) bool {
		return row.name != rowIncrAlone && len(r.only) > 0 && !slices.Contains(r.only, row.family)
	})
}

// slidegateRedisRows returns rows of Slidegate's store alone, and under the layer that combines concurrent requests, which is how a
// busy service uses it.
func slidegateRedisRows() []redisRow {
	overRueidis := func(s *redisServer) (store.Store, error) { return redisstore.New(s.rueidis, redisstore.Options{}) }
	overGoRedis := func(s *redisServer) (store.Store, error) { return goredis.New(s.pooled, redisstore.Options{}) }
	row := func(name, algorithm, client string, a rule.Algorithm, store func(*redisServer) (store.Store, error)) redisRow {
		return redisRow{name: name, family: own, algorithm: algorithm, client: client, atomic: true, open: slidegateRedisOpener(a, store)}
	}
	plain := row("slidegate", "sliding window", viaRueidis, slidegate.SlidingWindow, overRueidis)
	plain.goals, plain.memory = true, true
	together := row("slidegate, coalesce", "sliding window", viaRueidis, slidegate.SlidingWindow, coalesced(overRueidis))
	together.goals = true
	log := row("slidegate, coalesce, sliding-log", "exact log", viaRueidis, slidegate.SlidingLog, coalesced(overRueidis))
	log.memory = true
	return []redisRow{
		plain, together, log,
		row("slidegate, coalesce, go-redis", "sliding window", viaPool, slidegate.SlidingWindow, coalesced(overGoRedis)),
	}
}

// coalesced puts the layer with its default options over a store.
func coalesced(open func(*redisServer) (store.Store, error)) func(*redisServer) (store.Store, error) {
	return func(s *redisServer) (store.Store, error) {
		store, err := open(s)
		if err != nil {
			return nil, err
		}
		return coalesce.New(store, coalesce.Options{}), nil
	}
}

// slidegateRedisOpener drives a store through Limiter.Allow, which makes the whole Decision.
func slidegateRedisOpener(a rule.Algorithm, open func(*redisServer) (store.Store, error)) func(*redisServer, spec) (remoteAllow, error) {
	return func(server *redisServer, s spec) (remoteAllow, error) {
		store, err := open(server)
		if err != nil {
			return nil, err
		}
		l, err := slidegate.New(store, slidegate.Limit{Quota: s.quota, Window: s.window, Algorithm: a})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, key string) (bool, error) {
			d, err := l.Allow(ctx, key)
			return d.Allowed, err
		}, nil
	}
}
