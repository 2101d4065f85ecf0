package main

import (
	"context"
	"fmt"
)

// weighedUnits is how many units every key uses before its memory is measured: its whole quota, so that a log is full.
const (
	weighedKeys  = 100
	weighedUnits = 100
)

// redisWeight is the memory that Redis uses for a key.
type redisWeight struct {
	bytes float64 // as MEMORY USAGE counts them
	name  float64 // bytes of the name, included in bytes
	keys  float64 // keys of Redis
}

// redisMemory measures the memory of the limiters' state.
func (r *run) redisMemory(ctx context.Context, server *redisServer, rows []redisRow) (*table, error) {
	t := &table{
		title:   fmt.Sprintf("Redis: memory, quota %d, all used", weighedUnits),
		columns: []string{"limiter", "algorithm", "B/key", "to sorted set", "to redis_rate", "of it the name", "Redis keys"}, names: 2,
	}
	weights := map[string]redisWeight{}
	for i := range rows {
		if row := &rows[i]; row.memory {
			r.logf("redis, memory: %s", row.name)
			w, err := weighRedis(ctx, server, row)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			weights[row.name] = w
		}
	}
	for i := range rows {
		row := &rows[i]
		if w := weights[row.name]; row.memory {
			t.add(row.name, row.algorithm, fmt.Sprintf("%.0f", w.bytes), ratio(w.bytes, weights["sorted set"].bytes),
				ratio(w.bytes, weights["redis_rate"].bytes), fmt.Sprintf("%.0f", w.name), fmt.Sprintf("%g", w.keys))
		}
	}
	t.note("MEMORY USAGE, the mean of %d keys of %d bytes. It does not include the table of expiry times; INCR alone "+
		"sets no expiry.", weighedKeys, keyBytes)
	return t, nil
}

// weighRedis uses up the quota of some keys, and reads their memory usage from Redis.
func weighRedis(ctx context.Context, server *redisServer, row *redisRow) (w redisWeight, err error) {
	all := newKeys(0, weighedKeys)
	allow, err := openFilled(ctx, server, row, spec{quota: weighedUnits, window: quotaWindow}, all)
	if err != nil {
		return w, err
	}
	var c caller
	for used := 1; used < weighedUnits; used++ {
		for i := range all.n {
			if err := c.send(ctx, allow, all.at(i)); err != nil {
				return w, err
			}
		}
	}
	if c.passed != c.requests {
		return w, fmt.Errorf("%d of %d requests were refused within the quota", c.requests-c.passed, c.requests)
	}
	names, err := server.admin.Keys(ctx, "*").Result()
	if err != nil {
		return w, err
	}
	for _, name := range names {
		bytes, err := server.admin.MemoryUsage(ctx, name, 0).Result()
		if err != nil {
			return w, err
		}
		w.bytes += float64(bytes) / weighedKeys
		w.name += float64(len(name)) / weighedKeys
	}
	w.keys = float64(len(names)) / weighedKeys
	return w, nil
}
