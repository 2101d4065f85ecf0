package proxy_test

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
)

// await waits until something is so.
func await(t *testing.T, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatal("it did not happen")
		}
	}
}

// crowd is clients that send a request each at the same time.
type crowd struct {
	served, refused, left atomic.Int64
	all                   sync.WaitGroup
}

// come lets n clients send a request. Those that are refused must be told soon, and when to come again.
func (c *crowd) come(r *rig, n int, ctx context.Context, after func(seconds int)) {
	for range n {
		c.all.Go(func() {
			request, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.at+"/", nil)
			if err != nil {
				r.t.Error(err)
				return
			}
			began := time.Now()
			got, err := r.http.Do(request)
			if err != nil {
				c.left.Add(1)
				return
			}
			got.Body.Close()
			switch seconds, _ := strconv.Atoi(got.Header.Get("Retry-After")); {
			case got.StatusCode == http.StatusOK:
				c.served.Add(1)
			case time.Since(began) > 3*time.Second: // the machine may be busy
				r.t.Errorf("refused after %v, want at once", time.Since(began))
			default:
				c.refused.Add(1)
				after(seconds)
			}
		})
	}
}

// Of 200 clients at once, 100 wait and are served, and the others are refused at once with a true Retry-After.
func TestClientsWaitInLine(t *testing.T) {
	t.Parallel()
	r := waitingRig(t, "20/1s", 4500*time.Millisecond)
	var first, again crowd
	var once sync.Once
	began := time.Now()
	first.come(r, 200, t.Context(), func(seconds int) {
		if seconds != 5 {
			t.Errorf("got Retry-After %d, want 5", seconds)
		}
		once.Do(func() {
			again.all.Go(func() {
				<-time.After(time.Duration(seconds) * time.Second)
				again.come(r, 1, t.Context(), func(int) {})
			})
		})
	})
	first.all.Wait()
	if took := time.Since(began); took < 3900*time.Millisecond || took > 6500*time.Millisecond {
		t.Errorf("all were answered after %v, want 4s", took)
	}
	again.all.Wait()
	if first.served.Load() != 100 || first.refused.Load() != 100 || again.served.Load() != 1 {
		t.Errorf("%d served, %d refused, and %d of 1 served after Retry-After; want 100, 100 and 1", first.served.Load(), first.refused.Load(), again.served.Load())
	}
}

// Clients that leave free their places.
func TestClientsThatLeaveFreeTheirPlaces(t *testing.T) {
	t.Parallel()
	r := waitingRig(t, "20/10s", 45*time.Second)
	mustWait := func(int) { t.Error("refused, want in line") }
	var served, leaving, tooMany, after crowd
	served.come(r, 20, t.Context(), mustWait)
	served.all.Wait()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	leaving.come(r, 80, ctx, mustWait) // in turn at 10, 20, 30 and 40 seconds
	await(t, func() bool { return r.gate.Waiting("p") == 80 })
	tooMany.come(r, 20, t.Context(), func(int) {})
	tooMany.all.Wait()
	leave()
	leaving.all.Wait()
	await(t, func() bool { return r.gate.Waiting("p") == 0 })
	ctx, leave = context.WithCancel(t.Context())
	defer leave()
	after.come(r, 80, ctx, mustWait)
	await(t, func() bool { return r.gate.Waiting("p") == 80 })
	leave()
	after.all.Wait()
	if served.served.Load() != 20 || leaving.left.Load() != 80 || tooMany.refused.Load() != 20 || after.left.Load() != 80 {
		t.Errorf("%d served, %d left, %d refused, %d left; want 20, 80, 20 and 80",
			served.served.Load(), leaving.left.Load(), tooMany.refused.Load(), after.left.Load())
	}
}

// waitingRig returns a proxy with one limit for all clients, which wait.
func waitingRig(t *testing.T, limit string, wait time.Duration) *rig {
	limits := policy("p", "", limit)
	limits.Wait = wait
	return newRig(t, application(t, func(http.ResponseWriter, *http.Request) {}), settings{policies: []config.Policy{limits}, store: memstore.NewDefault()})
}
