package redisstore

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a Conn that calls a function of the test instead of making a round trip.
type scripted func(ctx context.Context)

func (scripted) Cluster() bool { return false }

func (do scripted) Run(ctx context.Context, _, _ string, _ []Call) { do(ctx) }

// newTrip returns an empty round trip whose channel belongs to the test's bubble.
func newTrip() *roundTrip { return &roundTrip{done: make(chan any, 1)} }

// inBubble runs a test in a bubble, which fails if a worker has not ended with it.
func inBubble(t *testing.T, do scripted, test func(t *testing.T, ws *workers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &workers{conn: do})
		time.Sleep(3 * maxIdleTime) // the last ones end
	})
}

// idleNow returns how many workers are idle once all goroutines are blocked.
func (ws *workers) idleNow() int {
	synctest.Wait()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.idle)
}

func TestSequentialTripsUseOneWorker(t *testing.T) {
	inBubble(t, func(context.Context) {}, func(t *testing.T, ws *workers) {
		for range 100 {
			trip := newTrip()
			ws.send(t.Context(), trip)
			<-trip.done
		}
		if n := ws.idleNow(); n != 1 {
			t.Errorf("got %d workers, want 1", n)
		}
	})
}

func TestIdleWorkersAreBounded(t *testing.T) {
	inBubble(t, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, ws *workers) {
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 * maxIdleWorkers {
			ws.send(ctx, newTrip())
		}
		if n := ws.idleNow(); n != 0 {
			t.Errorf("got %d workers idle while the client works, want 0", n)
		}
		cancel()
		if n := ws.idleNow(); n != maxIdleWorkers {
			t.Errorf("got %d workers idle, want %d", n, maxIdleWorkers)
		}
	})
}

// Workers that are not needed end, and the others stay: a Store has no Close.
func TestIdleWorkersEnd(t *testing.T) {
	inBubble(t, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, ws *workers) {
		send := func(n int) {
			ctx, cancel := context.WithCancel(t.Context())
			for range n {
				ws.send(ctx, newTrip())
			}
			synctest.Wait()
			cancel()
		}
		send(10)
		if n := ws.idleNow(); n != 10 {
			t.Fatalf("got %d workers idle, want 10", n)
		}
		for range 5 { // each time between two checks
			time.Sleep(maxIdleTime)
			send(3)
		}
		if n := ws.idleNow(); n != 3 {
			t.Errorf("got %d workers idle where 3 are needed", n)
		}
		time.Sleep(2 * maxIdleTime)
		if n := ws.idleNow(); n != 0 || ws.reaping {
			t.Errorf("got %d workers idle where none is needed, and reaping %t", n, ws.reaping)
		}
	})
}

func TestClientThatPanics(t *testing.T) {
	inBubble(t, func(context.Context) { panic("client") }, func(t *testing.T, ws *workers) {
		for range 2 {
			trip := newTrip()
			ws.send(t.Context(), trip)
			if panicked := <-trip.done; panicked != "client" {
				t.Errorf("the caller got %v", panicked)
			}
		}
		if n := ws.idleNow(); n != 1 {
			t.Errorf("got %d workers, want 1", n)
		}
	})
}

func TestClientThatEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(context.Context) { runtime.Goexit() }, func(t *testing.T, ws *workers) {
		for range 2 {
			trip := newTrip()
			ws.send(t.Context(), trip)
			<-trip.done
		}
		if n := ws.idleNow(); n != 0 {
			t.Errorf("got %d workers idle whose goroutines have ended", n)
		}
	})
}
