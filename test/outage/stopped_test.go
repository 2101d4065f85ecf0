//go:build unix

package outage_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/workers"
)

// How often the process under test is stopped, and for how long each time.
const (
	stops   = 5
	stopped = 300 * time.Millisecond
)

// load is the result of the process under test.
type load struct {
	Requests, Fallbacks int64
}

// TestWorker is the main function of the process that is stopped.
func TestWorker(t *testing.T) {
	workers.Serve(t, func(job string) (func([]byte) (any, error), error) {
		words := strings.Fields(job) // the client and the address
		var st store.Store
		if words[0] == "rueidis" {
			st = overRueidis(t, words[1])
		} else {
			st = overGoRedis(t, &redis.Options{Addr: words[1], ContextTimeoutEnabled: words[0] == "go-redis-timeouts"})
		}
		decide := middlewares(t, st)["httplimit"]
		decide(t.Context()) // connects
		return func(order []byte) (any, error) {
			var callers int
			if err := json.Unmarshal(order, &callers); err != nil {
				return nil, err
			}
			if callers == 0 {
				return os.Getpid(), nil
			}
			return decideWhileStopped(decide, callers)
		}, nil
	})
}

// decideWhileStopped makes callers send requests, each one at a time, until this process has been stopped as often as
// planned.
func decideWhileStopped(decide func(context.Context) rule.Flags, callers int) (done load, err error) {
	var requests, fallbacks atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if decide(context.WithoutCancel(ctx)) != 0 {
					fallbacks.Add(1)
				}
				requests.Add(1)
			}
		})
	}
	beat := time.NewTicker(5 * time.Millisecond)
	defer beat.Stop()
	give := time.After(time.Minute)
	for last, seen := time.Now(), 0; seen < stops && err == nil; {
		select {
		case <-beat.C:
			now := time.Now()
			if now.Sub(last) > stopped*3/4 {
				seen++
			}
			last = now
		case <-give:
			err = fmt.Errorf("this process was stopped %d times, want %d", seen, stops)
		}
	}
	cancel()
	all.Wait()
	return load{requests.Load(), fallbacks.Load()}, err
}

// A process that is stopped with requests in flight to a healthy Redis gets the answers when it continues: with either
// client, no fallback decides.
func TestStoppedProcessUsesNoFallback(t *testing.T) {
	node := redistest.Server(t, "appendonly no")
	for _, c := range []struct {
		client  string
		callers int
	}{{"rueidis", 1}, {"rueidis", 32}, {"go-redis", 32}, {"go-redis-timeouts", 32}} {
		t.Run(fmt.Sprintf("%s/%d", c.client, c.callers), func(t *testing.T) {
			worker := workers.Start(t, 1, c.client+" "+node.Addr())
			worker[0].Send(t, 0)
			pid := workers.ReceiveAll[int](t, worker)[0]
			worker[0].Send(t, c.callers)
			for range stops {
				pause(t, stopped/3)
				signal(t, pid, syscall.SIGSTOP)
				pause(t, stopped)
				signal(t, pid, syscall.SIGCONT)
			}
			if got := workers.ReceiveAll[load](t, worker)[0]; got.Fallbacks != 0 || got.Requests < int64(stops*c.callers) {
				t.Errorf("got %d of %d requests decided by the fallback, want none of at least %d", got.Fallbacks, got.Requests, stops*c.callers)
			}
		})
	}
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// pause waits while another process runs, or is stopped.
func pause(t *testing.T, d time.Duration) {
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
