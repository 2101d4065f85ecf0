package redisstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/workers"
)

const (
	lineProcesses = 4
	lineEach      = 50 // callers of a process that always wait
)

// lineOrder is the work of a process: all of its callers wait again and again until the time is over.
type lineOrder struct {
	Limit string
	Key   string
	For   time.Duration
}

// lineAnswer is what it did.
type lineAnswer struct {
	Admitted, Questions int64
}

// asked counts the calls to a store.
type asked struct {
	store.Store
	calls atomic.Int64
}

func (a *asked) Unwrap() store.Store { return a.Store }

func (a *asked) Apply(ctx context.Context, batch []store.Request) error {
	a.calls.Add(1)
	return a.Store.Apply(ctx, batch)
}

func waitAll(on store.Store, order []byte) (lineAnswer, error) {
	var o lineOrder
	if err := json.Unmarshal(order, &o); err != nil {
		return lineAnswer{}, err
	}
	counted := &asked{Store: on}
	limit := slidegate.MustParseLimit(o.Limit)
	limit.Name = o.Key
	limiter, err := slidegate.New(counted, limit)
	if err != nil {
		return lineAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.For)
	defer cancel()
	var admitted atomic.Int64
	errs := make(chan error, lineEach)
	var all sync.WaitGroup
	for range lineEach {
		all.Go(func() {
			for {
				err := limiter.Wait(ctx, o.Key, 1)
				if errors.Is(err, context.DeadlineExceeded) {
					return
				}
				if err != nil {
					errs <- err
					return
				}
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	close(errs)
	return lineAnswer{admitted.Load(), counted.calls.Load()}, <-errs
}

// used is how much of the limit the processes use at least, beside whatever else the machine does; 0.95 where it does nothing else.
var used = flag.Float64("used", 0.5, "how much of the limit waiting processes have to use")

// Callers of four processes wait for one key: the limit holds and is used, the processes ask little, and get about as much each.
func TestProcessesWaitInLine(t *testing.T) {
	t.Parallel()
	const during = 10 * time.Second
	server := redistest.Server(t, "appendonly no")
	processes := workers.Start(t, lineProcesses, "line "+server.Addr())
	for i, c := range []struct {
		limit    string
		most     int64
		possible float64
	}{
		{"20/1s token-bucket burst=1", 202, 201}, // spread, and lost if nobody asks when it is free
		{"20/1s sliding-log", 220, 200},          // clumped: 20 at the beginning of each second
	} {
		t.Run(c.limit, func(t *testing.T) {
			for _, p := range processes {
				p.Send(t, lineOrder{Limit: c.limit, Key: fmt.Sprint("line-", i), For: during})
			}
			var sum lineAnswer
			var each []int64
			for _, a := range workers.ReceiveAll[lineAnswer](t, processes) {
				sum.Admitted += a.Admitted
				sum.Questions += a.Questions
				each = append(each, a.Admitted)
			}
			t.Logf("%d admitted, %v each, %.2f questions an admission", sum.Admitted, each, float64(sum.Questions)/float64(sum.Admitted))
			if least := c.possible * *used; sum.Admitted > c.most || float64(sum.Admitted) < least {
				t.Errorf("%d were admitted in %v, want %g to %d", sum.Admitted, during, least, c.most)
			}
			if most := sum.Admitted * (lineProcesses + 1); sum.Questions > most { // one each at its moment, and one that came too early
				t.Errorf("%d questions, want at most %d", sum.Questions, most)
			}
			for _, n := range each {
				if fair := sum.Admitted / lineProcesses; n < fair/2 || n > 2*fair {
					t.Errorf("the processes were served %v, want %d to %d each", each, fair/2, 2*fair)
					break
				}
			}
		})
	}
}

// Callers of two processes that wait for a high rate use it.
func TestWaitersUseAHighRate(t *testing.T) {
	t.Parallel()
	const during = 5 * time.Second
	server := redistest.Server(t, "appendonly no")
	processes := workers.Start(t, 2, "line "+server.Addr())
	for i, limit := range []string{"2000/1s token-bucket burst=50", "2000/1s sliding-log"} {
		for _, p := range processes {
			p.Send(t, lineOrder{Limit: limit, Key: fmt.Sprint("rate-", i), For: during})
		}
		var sum lineAnswer
		for _, a := range workers.ReceiveAll[lineAnswer](t, processes) {
			sum.Admitted += a.Admitted
			sum.Questions += a.Questions
		}
		possible := int64(2000 * during / time.Second)
		t.Logf("%s: %d admitted, %.2f questions an admission", limit, sum.Admitted, float64(sum.Questions)/float64(sum.Admitted))
		if sum.Admitted < possible/2 || sum.Admitted > possible+4000 {
			t.Errorf("%s: %d were admitted in %v, want at least half of %d", limit, sum.Admitted, during, possible)
		}
	}
}

// Callers of Wait that leave at any moment, also while the store answers or takes back what others left, are charged nothing.
func TestWhoLeavesTheLineIsChargedNothing(t *testing.T) {
	t.Parallel()
	on := newStore(t, redistest.Server(t, "appendonly no").Client(t), redisstore.Options{})
	for _, text := range []string{"1000/24h sliding-log", "1000/24h token-bucket"} {
		limit := slidegate.MustParseLimit(text)
		limiter := kit.Must(slidegate.New(on, limit))(t)
		var served atomic.Int64
		var all sync.WaitGroup
		for caller := range 20 {
			random := rand.New(rand.NewPCG(uint64(caller), 1))
			all.Go(func() {
				for range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Duration(random.Int64N(int64(2*time.Millisecond))), cancel)
					switch err := limiter.Wait(ctx, text, 1); {
					case err == nil:
						served.Add(1)
					case !errors.Is(err, context.Canceled):
						t.Error(err)
					}
					cancel()
				}
			})
		}
		all.Wait()
		left := func() int64 { return kit.Must(limiter.Peek(t.Context(), text, 1))(t).Remaining }
		kit.Eventually(t, "all that was taken for callers that left is given back", func() bool { return left() >= limit.Quota-served.Load() })
		if n := left(); n != limit.Quota-served.Load() {
			t.Errorf("%s: %d served, and %d left", text, served.Load(), n)
		}
		t.Logf("%s: %d of 2000 served", text, served.Load())
	}
}
