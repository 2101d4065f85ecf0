package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// openRedisRate opens github.com/go-redis/redis_rate as its documentation does.
func openRedisRate(server *redisServer, s spec) (remoteAllow, error) {
	return redisRate(redis_rate.NewLimiter(server.pooled), s), nil
}

// openRedisRatePiped uses go-redis's automatic pipeline instead, which its interface accepts although its documentation does not
// mention it.
func openRedisRatePiped(server *redisServer, s spec) (remoteAllow, error) {
	return redisRate(redis_rate.NewLimiter(server.piped), s), nil
}

func redisRate(l *redis_rate.Limiter, s spec) remoteAllow {
	limit := redis_rate.Limit{Rate: int(s.quota), Burst: int(s.quota), Period: s.window}
	return func(ctx context.Context, key string) (bool, error) {
		result, err := l.Allow(ctx, key, limit)
		return err == nil && result.Allowed > 0, err
	}
}

// openUluleRedis opens github.com/ulule/limiter with its Redis store.
func openUluleRedis(server *redisServer, s spec) (remoteAllow, error) {
	return ululeRedis(server.pooled, s)
}

// openUluleRedisPiped uses go-redis's automatic pipeline.
func openUluleRedisPiped(server *redisServer, s spec) (remoteAllow, error) {
	return ululeRedis(server.piped, s)
}

func ululeRedis(client ululeredis.Client, s spec) (remoteAllow, error) {
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	l := ulule.New(store, ulule.Rate{Period: s.window, Limit: s.quota})
	return func(ctx context.Context, key string) (bool, error) {
		result, err := l.Get(ctx, key)
		return !result.Reached, err
	}, nil
}

// openSortedSet is the limiter that tutorials publish: five commands in one pipeline. Every request adds a member, even one that is
// refused, and other requests may come between the commands.
func openSortedSet(server *redisServer, s spec) (remoteAllow, error) {
	return func(ctx context.Context, key string) (bool, error) {
		name := "sorted-set:" + key
		now := time.Now().UnixMilli()
		member := strconv.FormatInt(now, 10) + "-" + strconv.FormatUint(uint64(rand.Uint32()), 16)
		pipe := server.pooled.Pipeline()
		pipe.ZRemRangeByScore(ctx, name, "0", strconv.FormatInt(now-s.window.Milliseconds(), 10))
		pipe.ZAdd(ctx, name, redis.Z{Score: float64(now), Member: member})
		count := pipe.ZCard(ctx, name)
		pipe.ZRangeWithScores(ctx, name, 0, 0) // the oldest, from which Retry-After is computed
		pipe.Expire(ctx, name, s.window)
		_, err := pipe.Exec(ctx)
		return count.Val() <= s.quota, err
	}, nil
}

// openIncr only counts requests: no window, no expiry, no script.
func openIncr(server *redisServer, s spec) (remoteAllow, error) {
	client := server.rueidis
	return func(ctx context.Context, key string) (bool, error) {
		n, err := client.Do(ctx, client.B().Incr().Key("incr:"+key).Build()).AsInt64()
		return n <= s.quota, err
	}, nil
}
