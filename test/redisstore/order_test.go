package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// Requests of a batch that share a key are decided in order, however many calls the batch takes and whatever the server
// forgets in the meantime.

// manyRequests returns a batch of two calls for one key, all in its group.
func manyRequests(limit *store.Limit) []store.Request {
	batch := make([]store.Request, 700)
	for i := range batch {
		batch[i] = store.Request{
			Group: "group", Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1),
		}
	}
	return batch
}

// inBackground calls a function repeatedly until the test ends.
func inBackground(t *testing.T, do func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			do(ctx)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// checkOrder sends large batches, and fails the test if one is not decided in order. Errors of calls are ignored.
func checkOrder(t *testing.T, s *redisstore.Store, rounds int) {
	t.Helper()
	answered := 0
	for round := range rounds {
		limit := bind(t, "order", slidegate.Limit{Name: fmt.Sprint(round), Quota: 10_000, Window: time.Hour})
		batch := manyRequests(limit)
		if s.Apply(context.Background(), batch) != nil {
			continue
		}
		answered++
		for i := range batch {
			if got := batch[i].Answers[0].Remaining; got != 10_000-int64(i)-1 {
				t.Fatalf("round %d, request %d: got %d remaining, want %d: another was decided before it", round, i, got, 10_000-i-1)
			}
		}
	}
	if answered < rounds/10 {
		t.Errorf("only %d of %d batches were answered: the test proves little", answered, rounds)
	}
}

func TestOrderWhenScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	const rounds = 300
	for name, open := range map[string]func(t *testing.T, server *redistest.Node) *redisstore.Store{
		"rueidis": func(t *testing.T, server *redistest.Node) *redisstore.Store {
			return newStore(t, server.Client(t), redisstore.Options{})
		},
		"go-redis": func(t *testing.T, server *redistest.Node) *redisstore.Store {
			client := redis.NewClient(&redis.Options{Addr: server.Addr()})
			t.Cleanup(func() { client.Close() })
			return kit.Must(goredis.New(client, redisstore.Options{}))(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Server(t, "appendonly no")
			flushing, loading := server.Client(t), newStore(t, server.Client(t), redisstore.Options{})
			inBackground(t, func(ctx context.Context) {
				_ = flushing.Do(ctx, flushing.B().Arbitrary("SCRIPT", "FLUSH").Build()).Error() // it ends with the test
			})
			other := store.Charge{Limit: bind(t, "order", hourly), Key: "another", Cost: 1}
			inBackground(t, func(ctx context.Context) { _, _ = tryApply(ctx, loading, rule.Take, other) }) // which loads the script again
			checkOrder(t, open(t, server), rounds)
		})
	}
}
