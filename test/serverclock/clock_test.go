package serverclock_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/serverclock"
)

// A server's clock runs with the system's, ahead or behind by exactly what was set, from the time at which it was set.
func TestSet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	redisClock, postgresClock := serverclock.New(t), serverclock.New(t)
	redis := redistest.ServerWithEnv(t, redisClock.Env()).Client(t)
	postgres := pgtest.StartWithEnv(t, postgresClock.Env(), "fsync = off").Pool(t)
	for _, server := range []struct {
		name  string
		clock *serverclock.Clock
		time  func() (micros int64, err error)
	}{
		{"Redis", redisClock, func() (int64, error) {
			parts, err := redis.Do(ctx, redis.B().Time().Build()).AsIntSlice()
			if err != nil {
				return 0, err
			}
			return parts[0]*1_000_000 + parts[1], nil
		}},
		{"PostgreSQL", postgresClock, func() (micros int64, err error) {
			err = postgres.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&micros)
			return micros, err
		}},
	} {
		for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 250 * time.Millisecond, -time.Microsecond, 0} {
			server.clock.Set(ahead)
			before := time.Now().Add(ahead).UnixMicro()
			got, err := server.time()
			if err != nil {
				t.Fatal(err)
			}
			if after := time.Now().Add(ahead).UnixMicro(); got < before || got > after {
				t.Errorf("%s, %v ahead: got %d, want %d to %d", server.name, ahead, got, before, after)
			}
		}
	}
}
