package model_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
)

// cuttingLine loses requests and replies of a store.
type cuttingLine interface {
	// disturb causes another fault, or ends it.
	disturb(random *rand.Rand)
	heal()
}

// wire is a proxy in front of a server.
type wire struct {
	*faultproxy.Proxy
	onlyCut bool // for clients that hang if a server accepts a connection and does not answer
	faults  int
	fails   int // requests since then
}

func (w *wire) disturb(*rand.Rand) {
	w.faults, w.fails = w.faults+1, 0
	switch {
	case w.faults%3 == 0 || w.onlyCut:
		w.Cut()
		w.Mend()
	case w.faults%3 == 1:
		w.Mute(10 * time.Millisecond) // what arrives is carried out, and its reply is lost
	default:
		w.Reset(0)
	}
}

// heal ends a fault after some requests have failed.
func (w *wire) heal() {
	if w.fails++; w.fails%3 == 0 {
		w.Heal()
	}
}

// calledOnce sends calls with an ID over a line that is cut at random, until each is answered, and cancels some of them by their ID. Each
// is charged once. Direct is the store without the line, which is disturbed once in so many requests.
func calledOnce(t *testing.T, over, direct store.Store, line cuttingLine, every int64) {
	t.Helper()
	const calls, callers = 1_000, 8
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	limit := slidegate.Limit{Name: "once", Quota: 100_000, Window: 24 * time.Hour}
	namespace := fmt.Sprint("once-", seed)
	limiter := kit.Must(slidegate.New(slidegate.Namespace(over, namespace), limit))(t)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 3))
	var next, sent, repeated, cancelled atomic.Int64
	attempt := func(call func(ctx context.Context) error) {
		for begun := time.Now(); ; {
			if sent.Add(1)%every == 0 {
				mu.Lock()
				line.disturb(random)
				mu.Unlock()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := call(ctx)
			cancel()
			if err == nil {
				return
			}
			mu.Lock()
			line.heal()
			mu.Unlock()
			if time.Since(begun) > time.Minute {
				t.Errorf("a call fails: %v", err)
				return
			}
			if errors.Is(err, store.ErrDown) { // the client connects again after a while
				sent.Add(-1)
				<-time.After(5 * time.Millisecond)
			}
		}
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := next.Add(1); n <= calls; n = next.Add(1) {
				call := limiter.Once(fmt.Sprintf("call %d", n))
				attempt(func(ctx context.Context) error {
					d, err := call.Allow(ctx, "key")
					switch {
					case err != nil:
					case !d.Allowed || d.Granted != 1:
						t.Errorf("call %d: got %+v, want it admitted", n, d)
					case d.Flags&rule.Repeated != 0:
						repeated.Add(1)
					}
					return err
				})
				if n%10 == 0 {
					cancelled.Add(1)
					attempt(func(ctx context.Context) error {
						s, err := call.CancelCall(ctx, "key")
						if err == nil && s.Returned[0] != 1 {
							t.Errorf("call %d: got %+v, want the unit returned", n, s)
						}
						return err
					})
				}
			}
		})
	}
	all.Wait()
	after := kit.Must(slidegate.New(slidegate.Namespace(direct, namespace), limit))(t)
	d := kit.Must(after.Peek(t.Context(), "key", 1))(t)
	if used, want := limit.Quota-d.Remaining, calls-cancelled.Load(); used != want {
		t.Errorf("%d units were charged for %d calls, want each once", used, want)
	}
	t.Logf("%d calls were sent %d times; %d replies had been lost", calls, sent.Load(), repeated.Load())
	if repeated.Load() == 0 {
		t.Error("no reply was lost: the test proves nothing")
	}
}

// lossy is a store in this process whose replies get lost.
type lossy struct {
	store.Store
	mu   sync.Mutex
	lose int // how many of the next replies
}

var errLost = errors.New("the reply was lost")

func (l *lossy) Apply(ctx context.Context, batch []store.Request) error {
	err := l.Store.Apply(ctx, batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lose--; l.lose >= 0 {
		return errLost
	}
	return err
}

func (l *lossy) disturb(random *rand.Rand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = random.IntN(5)
}

func (l *lossy) heal() {} // it ends by itself

func TestOnceInMemory(t *testing.T) {
	t.Parallel()
	inner := memory(t, storetest.NewClock(rule.Micros(time.Now().UnixMicro())))
	line := &lossy{Store: inner}
	calledOnce(t, line, inner, line, 20)
}

// address returns the address in a URL.
func address(url string) string {
	_, at, _ := strings.Cut(url, "://")
	return at
}
