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
	"github.com/slidegate/slidegate/layer/failure"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// herd are layers with the policy Optimistic over one Redis, each with a client of its own as if it were a process of its own, and
// what they have admitted of one key.
type herd struct {
	t      *testing.T
	layers []*failure.Store
	limit  *store.Limit

	byStore, byHope atomic.Int64
}

const (
	herdSize  = 3
	herdK     = 4
	herdQuota = 60
)

func newHerd(t *testing.T, addr string) *herd {
	limit, err := slidegate.Bind("", slidegate.Limit{
		Name: "herd", Algorithm: slidegate.SlidingWindow, Quota: herdQuota, Window: time.Hour, Segments: 60, Overlap: slidegate.OverlapWhole,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &herd{t: t, limit: limit}
	for range herdSize {
		st, err := failure.New(overRueidis(t, addr), failure.Optimistic(herdK), failure.Options{Timeout: 50 * time.Millisecond, ProbeEvery: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		h.layers = append(h.layers, st)
	}
	return h
}

// take has callers of all layers take units, each so often, and notes what is admitted.
func (h *herd) take(callers, times int) {
	var all sync.WaitGroup
	for _, st := range h.layers {
		for range callers {
			all.Go(func() {
				for range times {
					allowed, flags, _, _, _, _, err := st.TakeSingle(context.Background(), h.limit, "key", 1)
					switch {
					case err != nil:
						h.t.Errorf("a take: %v", err)
					case allowed && flags.FallbackOptimistic():
						h.byHope.Add(1)
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
func (h *herd) settle() {
	h.t.Helper()
	for _, st := range h.layers {
		kit.Eventually(h.t, "what is owed to be charged", func() bool {
			_, _, _, _, _, _, _ = st.TakeSingle(context.Background(), h.limit, "another key", 0) // a probe
			got := st.Stats()
			return got.Owed == 0 && !got.Down
		})
	}
}

// used returns how many units are used in Redis.
func (h *herd) used() int64 {
	h.t.Helper()
	r := store.Request{Op: rule.Peek, Charges: []store.Charge{{Limit: h.limit, Key: "key"}}, Answers: make([]rule.Answer, 1)}
	if err := h.layers[0].Apply(context.Background(), []store.Request{r}); err != nil || r.Answers[0].Flags != 0 {
		h.t.Fatalf("a peek: %+v, %v", r.Answers, err)
	}
	return herdQuota - r.Answers[0].Remaining
}

// Redis is stopped, and goes on: in the meantime each process admits k units and no more, Redis hears of them, and all together stay
// within the quota and k for each. Once Redis has had no room, the next time that it is stopped nothing is admitted.
func TestOptimismOverARedisThatIsStopped(t *testing.T) {
	node := redistest.Server(t, "appendonly no")
	h := newHerd(t, node.Addr())
	h.take(2, 3)
	if got := h.used(); got != h.byStore.Load() || h.byHope.Load() != 0 {
		t.Fatalf("%d are used in Redis, %d were admitted by it and %d without it", got, h.byStore.Load(), h.byHope.Load())
	}
	for outage := range 2 {
		node.Signal(syscall.SIGSTOP)
		h.take(4, 5)
		if got := h.byHope.Load(); got != int64(outage+1)*herdSize*herdK {
			t.Errorf("%d were admitted without Redis in %d outages, want %d in each", got, outage+1, herdSize*herdK)
		}
		node.Signal(syscall.SIGCONT)
		h.settle()
		// Takes that nobody waited for may have been charged too.
		if used, admitted := h.used(), h.byStore.Load()+h.byHope.Load(); used < admitted {
			t.Errorf("%d are used in Redis, %d were admitted", used, admitted)
		}
	}
	h.take(4, herdQuota)
	if got, most := h.byStore.Load()+h.byHope.Load(), int64(herdQuota+herdSize*herdK); got > most {
		t.Errorf("%d were admitted, at most %d can be", got, most)
	}
	if got := h.used(); got != herdQuota {
		t.Errorf("%d of %d are used in Redis at the end", got, herdQuota)
	}
	before := h.byHope.Load()
	node.Signal(syscall.SIGSTOP)
	h.take(2, 10)
	if got := h.byHope.Load(); got != before {
		t.Errorf("%d were admitted without Redis, which had no room", got-before)
	}
	node.Signal(syscall.SIGCONT)
	for _, st := range h.layers {
		if err := st.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A Redis that dies in the outage takes what is owed with it, and closing says so.
func TestOptimismOverARedisThatIsKilled(t *testing.T) {
	node := redistest.Server(t, "appendonly no")
	h := newHerd(t, node.Addr())
	node.Kill()
	h.take(4, 5)
	if got := h.byHope.Load(); got != herdSize*herdK {
		t.Errorf("%d were admitted without Redis, want %d", got, herdSize*herdK)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, st := range h.layers {
		if err := st.Close(ctx); err == nil {
			t.Error("closed, and nobody has heard of what was admitted")
		}
	}
}
