package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Callers come and go at random. Every request reaches the store exactly once, unless its error says that it was not
// sent, and every answer goes to the right caller.
func TestEveryRequestOnce(t *testing.T) {
	for _, opts := range []coalesce.Options{
		{InFlight: 1, MaxBatch: 1}, {InFlight: 1, MaxBatch: 5, MaxQueue: 8}, {InFlight: 3, MaxBatch: 16}, {},
		{InFlight: 2, MaxBatch: 5, MaxQueue: 8, Gather: true}, {Gather: true},
	} {
		opts.Timeout = time.Minute
		t.Run(fmt.Sprintf("%+v", opts), func(t *testing.T) {
			echo := &echo{Store: newMemory(t, nil), times: map[string]int{}}
			store, limit := newStore(t, echo, opts), bind(t, slidegate.PerHour(1))
			var all sync.WaitGroup
			var unsent atomic.Int64
			for worker := range 24 {
				all.Go(func() {
					random := rand.New(rand.NewPCG(uint64(worker), 1))
					for i := range 150 {
						key := fmt.Sprintf("%d-%d", worker, i)
						if !sendEcho(t, store, limit, key, random) {
							unsent.Add(1)
							echo.forbid(key)
						}
					}
				})
			}
			all.Wait()
			for store.Slots() > 0 { // calls whose callers have all left may still be under way
				runtime.Gosched()
			}
			echo.expectOnce(t)
			if store.Waiting() != 0 || opts.MaxQueue > 0 && unsent.Load() == 0 {
				t.Errorf("%d requests still wait at the end; %d were not sent", store.Waiting(), unsent.Load())
			}
		})
	}
}

// sendEcho makes a request of a few charges, or calls TakeSingle, sometimes with a context that ends soon. It reports
// whether the request may have been sent.
func sendEcho(t *testing.T, st *coalesce.Store, limit *store.Limit, key string, random *rand.Rand) (sent bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if random.IntN(3) == 0 {
		spins := random.IntN(20)
		go func() {
			for range spins {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	var err error
	if random.IntN(2) == 0 {
		var at rule.Micros
		if _, _, _, _, _, at, err = st.TakeSingle(ctx, limit, key, 1); err == nil && at != echoOf(key, 0) {
			t.Errorf("TakeSingle for %s got another caller's answer", key)
		}
	} else {
		batch := make([]store.Request, 1+random.IntN(3))
		for i := range batch {
			batch[i] = request(rule.Peek, make([]store.Charge, 1+random.IntN(3))...)
			for j := range batch[i].Charges {
				batch[i].Charges[j] = store.Charge{Limit: limit, Key: key, Cost: int64(10*i + j)}
			}
		}
		err = st.Apply(ctx, batch)
		for i := range batch {
			for j, a := range batch[i].Answers {
				if batch[i].Err == nil && a.At != echoOf(key, int64(10*i+j)) {
					t.Errorf("request %d for %s got another caller's answer %d", i, key, j)
				}
			}
		}
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, coalesce.ErrFull) || strings.Contains(err.Error(), "nothing is charged"):
		return false
	case !errors.Is(err, context.Canceled):
		t.Errorf("%s: got %v, want ErrFull, nothing charged, or canceled", key, err)
	}
	return true
}

func echoOf(key string, cost int64) rule.Micros {
	echo := rule.Micros(7 + cost)
	for _, c := range []byte(key) {
		echo = echo*31 + rule.Micros(c)
	}
	return echo
}

// echo answers with the requested key and cost, and counts requests.
type echo struct {
	store.Store
	mu     sync.Mutex
	times  map[string]int // by key
	unsent []string
}

func (e *echo) Apply(_ context.Context, batch []store.Request) error {
	e.mu.Lock()
	for i := range batch {
		r := &batch[i]
		if r.Charges[0].Cost <= 1 { // the first of its caller's requests
			e.times[r.Charges[0].Key]++
		}
		for j, charge := range r.Charges {
			cost := charge.Cost
			if r.Op == rule.Take {
				cost = 0
			}
			r.Answers[j] = rule.Answer{At: echoOf(charge.Key, cost)}
		}
		r.Err = nil
	}
	e.mu.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	return nil
}

func (e *echo) forbid(key string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unsent = append(e.unsent, key)
}

func (e *echo) expectOnce(t *testing.T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for worker := range 24 {
		for i := range 150 {
			key := fmt.Sprintf("%d-%d", worker, i)
			want := 1
			if slices.Contains(e.unsent, key) {
				want = 0
			}
			if e.times[key] != want {
				t.Fatalf("the request for %s reached the store %d times, want %d", key, e.times[key], want)
			}
		}
	}
}

// Whatever the number of concurrent callers, exactly the quota is admitted.
func TestExactUnderLoad(t *testing.T) {
	for _, inFlight := range []int{1, 4} {
		inner := newRecorder(t, func(context.Context, []store.Request) error {
			for range 10 {
				runtime.Gosched()
			}
			return nil
		})
		store := newStore(t, inner, coalesce.Options{InFlight: inFlight, Timeout: time.Minute})
		limiter, err := slidegate.New(store, slidegate.PerHour(1000))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var admitted atomic.Int64
		for range 64 {
			all.Go(func() {
				for range 40 {
					d, err := limiter.Allow(t.Context(), "hot")
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		requests := 0
		for _, keys := range inner.seen() {
			requests += len(keys)
		}
		if admitted.Load() != 1000 || requests != 64*40 || inner.most > inFlight {
			t.Errorf("got %d of 1000 admitted, in %d requests, %d concurrent calls", admitted.Load(), requests, inner.most)
		}
	}
}
