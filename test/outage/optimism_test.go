//go:build unix

package outage_test

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// layerGroup is a set of layers in the mode optimistic over one Redis, each with its own client, as in separate
// processes, and the number of units that they have admitted for one key.
type layerGroup struct {
	t      *testing.T
	layers []*failure.Store
	limit  *store.Limit

	byStore, byFallback atomic.Int64
}

const (
	herdSize  = 3
	herdK     = 4
	herdQuota = 60

	// patience is how long a layer waits for Redis. It is much longer than a busy machine delays a running Redis, so only a stopped one
	// counts as an outage; each outage of the tests takes that long.
	patience = 1500 * time.Millisecond
)

func newLayerGroup(t *testing.T, addr string) *layerGroup {
	limit, err := adapter.Bind("", slidegate.Limit{
		Name: "herd", Algorithm: slidegate.SlidingWindow, Quota: herdQuota, Window: time.Hour, Segments: 60, Overlap: slidegate.OverlapWhole,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &layerGroup{t: t, limit: limit}
	for range herdSize {
		st := failure.New(overRueidis(t, addr), failure.Options{
			Mode: store.FailOptimistic, Optimism: herdK, Local: memstore.NewDefault(), Timeout: patience, ProbeEvery: patience,
		})
		h.layers = append(h.layers, st)
	}
	return h
}

// take makes each caller of all layers take a unit the given number of times, and counts what is admitted.
func (h *layerGroup) take(callers, times int) {
	var all sync.WaitGroup
	for _, st := range h.layers {
		for range callers {
			all.Go(func() {
				for range times {
					allowed, flags, _, _, _, _, err := st.TakeSingle(context.Background(), h.limit, "key", 1)
					switch {
					case err != nil:
						h.t.Errorf("a take: %v", err)
					case allowed && flags&rule.FallbackOptimistic != 0:
						h.byFallback.Add(1)
					case allowed:
						h.byStore.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
}

// settle waits until the store answers all layers and they owe it nothing.
func (h *layerGroup) settle() {
	h.t.Helper()
	for _, st := range h.layers {
		kit.Eventually(h.t, "what is owed to be charged", func() bool {
			_, _, _, _, _, _, _ = st.TakeSingle(context.Background(), h.limit, "another key", 0)
			got := st.Stats()
			return got.Owed == 0 && got.Unknown == 0 && !got.Down // none is under way
		})
	}
}

// used returns how many units are used in Redis.
func (h *layerGroup) used() int64 {
	h.t.Helper()
	r := store.Request{Op: rule.Peek, Charges: []store.Charge{{Limit: h.limit, Key: "key"}}, Answers: make([]rule.Answer, 1)}
	if err := h.layers[0].Apply(context.Background(), []store.Request{r}); err != nil || r.Answers[0].Flags != 0 {
		h.t.Fatalf("a peek: got %+v, %v, want no flags", r.Answers, err)
	}
	return herdQuota - r.Answers[0].Remaining
}

// While Redis is stopped, each process admits k units and no more; later Redis is charged for them. All processes together
// stay within the quota plus k per process. If the quota was used up before, nothing is admitted the next time that Redis
// is stopped.
func TestOptimismWithStoppedRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Server(t, "appendonly no")
	h := newLayerGroup(t, node.Addr())
	h.take(2, 3)
	if got := h.used(); got != h.byStore.Load() || h.byFallback.Load() != 0 {
		t.Fatalf("got %d used in Redis, %d were admitted by it and %d without it", got, h.byStore.Load(), h.byFallback.Load())
	}
	for outage := range 2 {
		node.Signal(syscall.SIGSTOP)
		h.take(4, 5)
		if got := h.byFallback.Load(); got != int64(outage+1)*herdSize*herdK {
			t.Errorf("got %d admitted without Redis in %d outages, want %d in each", got, outage+1, herdSize*herdK)
		}
		node.Signal(syscall.SIGCONT)
		h.settle()
		// Takes that no caller waited for may have been charged too.
		if used, admitted := h.used(), h.byStore.Load()+h.byFallback.Load(); used < admitted {
			t.Errorf("got %d used in Redis, %d were admitted", used, admitted)
		}
	}
	h.take(4, herdQuota)
	if got, most := h.byStore.Load()+h.byFallback.Load(), int64(herdQuota+herdSize*herdK); got > most {
		t.Errorf("got %d admitted, want at most %d", got, most)
	}
	if got := h.used(); got != herdQuota {
		t.Errorf("got %d of %d used in Redis at the end", got, herdQuota)
	}
	before := h.byFallback.Load()
	node.Signal(syscall.SIGSTOP)
	h.take(2, 10)
	if got := h.byFallback.Load(); got != before {
		t.Errorf("got %d admitted without Redis, which was exhausted", got-before)
	}
	node.Signal(syscall.SIGCONT)
	for _, st := range h.layers {
		if err := st.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A Redis that answers but cannot be written is out, and is charged for exactly what was admitted when it can be again: nothing
// was carried out in between.
func TestOptimismWithUnwritableRedis(t *testing.T) {
	for name, commands := range map[string][2][]string{
		"read-only": {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
		"full":      {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := redistest.Server(t, "appendonly no")
			client := node.Client(t)
			do := func(command []string) {
				if err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			h := newLayerGroup(t, node.Addr())
			h.take(2, 3)
			do(commands[0])
			h.take(4, 5)
			if got := h.byFallback.Load(); got != herdSize*herdK {
				t.Errorf("got %d admitted without Redis, want %d", got, herdSize*herdK)
			}
			for _, st := range h.layers {
				kit.Eventually(t, "a probe", func() bool { return st.Stats().Probes > 1 })
				if got := st.Stats(); !got.Down || got.Outages != 1 || got.Owed != herdK {
					t.Errorf("got %+v, want one outage that lasts, and %d owed", got, herdK)
				}
			}
			do(commands[1])
			h.settle()
			if used, admitted := h.used(), h.byStore.Load()+h.byFallback.Load(); used != admitted {
				t.Errorf("got %d used in Redis, %d were admitted", used, admitted)
			}
			for _, st := range h.layers {
				if err := st.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// If Redis is killed during the outage, the owed units are lost, and Close returns an error.
func TestOptimismWithKilledRedis(t *testing.T) {
	node := redistest.Server(t, "appendonly no")
	h := newLayerGroup(t, node.Addr())
	node.Kill()
	h.take(4, 5)
	if got := h.byFallback.Load(); got != herdSize*herdK {
		t.Errorf("got %d admitted without Redis, want %d", got, herdSize*herdK)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, st := range h.layers {
		if err := st.Close(ctx); err == nil {
			t.Error("Close returned no error, although what was admitted was not charged")
		}
	}
}
