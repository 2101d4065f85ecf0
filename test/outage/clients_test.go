//go:build unix

package outage_test

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// A store without a layer waits until the context ends, or for as long as its client does. This compares what docs/redis.md says about
// clients with servers that accept connections and never reply.
func TestClientsGiveUp(t *testing.T) {
	text := string(kit.Must(os.ReadFile("../../docs/redis.md"))(t))
	page := regexp.MustCompile(`go-redis with its default options gives up after (\d+) seconds, and rueidis after (\d+) to (\d+),`).
		FindStringSubmatch(strings.Join(strings.Fields(text), " "))
	if page == nil {
		t.Fatal("docs/redis.md no longer says when clients give up; change the pattern with the page")
	}
	figure := func(group int) time.Duration {
		return time.Duration(kit.Must(strconv.Atoi(page[group]))(t)) * time.Second
	}
	goRedis := func(t *testing.T) store.Store { return overGoRedis(t, &redis.Options{Addr: silentServer(t)}) }
	const deadline = 200 * time.Millisecond
	for name, c := range map[string]struct {
		open        func(t *testing.T) store.Store
		deadline    time.Duration // 0 means none
		least, most time.Duration
	}{
		"go-redis":           {goRedis, 0, figure(1), figure(1)},
		"go-redis, deadline": {goRedis, deadline, deadline, deadline},
		"rueidis":            {stoppedRueidis, 0, figure(2), figure(3)},
		"rueidis, deadline":  {stoppedRueidis, deadline, deadline, deadline},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := kit.Must(slidegate.New(c.open(t), slidegate.PerMinute(10)))(t)
			ctx := t.Context()
			if c.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.deadline)
				defer cancel()
			}
			begun := time.Now()
			_, err := limiter.Allow(ctx, "key")
			took := time.Since(begun)
			t.Logf("%v: %v", took, err)
			if err == nil || took < c.least*9/10 || took > c.most*5/4+time.Second { // a busy machine makes it later
				t.Errorf("got %v after %v, want an error after %v to %v", err, took, c.least, c.most)
			}
		})
	}
}

// stoppedRueidis returns a store whose server has stopped since the client connected.
func stoppedRueidis(t *testing.T) store.Store {
	node := redistest.Server(t, "appendonly no")
	st := overRueidis(t, node.Addr())
	node.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { node.Signal(syscall.SIGCONT) })
	return st
}
