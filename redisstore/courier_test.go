package redisstore

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a Conn that does what a test says in place of a round trip.
type scripted func(ctx context.Context)

func (scripted) Cluster() bool { return false }

func (do scripted) Run(ctx context.Context, _ *Script, _ []Call) { do(ctx) }

// newTrip returns an empty trip whose channel belongs to the test's bubble.
func newTrip() *trip { return &trip{done: make(chan any, 1)} }

// inBubble runs a test in a bubble, which fails if a courier has not ended with it.
func inBubble(t *testing.T, do scripted, test func(t *testing.T, cs *couriers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &couriers{conn: do})
		time.Sleep(3 * maxIdleTime) // the last ones end
	})
}

// idleNow returns how many couriers wait for a trip once nothing moves.
func (cs *couriers) idleNow() int {
	synctest.Wait()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.idle)
}

func TestTripsInTurnHaveOneCourier(t *testing.T) {
	inBubble(t, func(context.Context) {}, func(t *testing.T, cs *couriers) {
		for range 100 {
			trip := newTrip()
			cs.send(t.Context(), trip)
			<-trip.done
		}
		if n := cs.idleNow(); n != 1 {
			t.Errorf("%d couriers, want 1", n)
		}
	})
}

func TestIdleCouriersAreBounded(t *testing.T) {
	inBubble(t, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, cs *couriers) {
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 * maxIdleCouriers {
			cs.send(ctx, newTrip())
		}
		if n := cs.idleNow(); n != 0 {
			t.Errorf("%d couriers are idle while the client works", n)
		}
		cancel()
		if n := cs.idleNow(); n != maxIdleCouriers {
			t.Errorf("%d couriers are idle, want %d", n, maxIdleCouriers)
		}
	})
}

// Couriers that are not needed end, and the others stay: a Store has no Close.
func TestIdleCouriersEnd(t *testing.T) {
	inBubble(t, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, cs *couriers) {
		send := func(n int) {
			ctx, cancel := context.WithCancel(t.Context())
			for range n {
				cs.send(ctx, newTrip())
			}
			synctest.Wait()
			cancel()
		}
		send(10)
		if n := cs.idleNow(); n != 10 {
			t.Fatalf("%d couriers are idle, want 10", n)
		}
		for range 5 { // each time between two looks
			time.Sleep(maxIdleTime)
			send(3)
		}
		if n := cs.idleNow(); n != 3 {
			t.Errorf("%d couriers are idle where 3 are needed", n)
		}
		time.Sleep(2 * maxIdleTime)
		if n := cs.idleNow(); n != 0 || cs.thinning {
			t.Errorf("%d couriers are idle where none is needed, and it is %t that this is looked at again", n, cs.thinning)
		}
	})
}

func TestClientThatPanics(t *testing.T) {
	inBubble(t, func(context.Context) { panic("client") }, func(t *testing.T, cs *couriers) {
		for range 2 {
			trip := newTrip()
			cs.send(t.Context(), trip)
			if panicked := <-trip.done; panicked != "client" {
				t.Errorf("the caller gets %v", panicked)
			}
		}
		if n := cs.idleNow(); n != 1 {
			t.Errorf("%d couriers, want 1", n)
		}
	})
}

func TestClientThatEndsItsGoroutine(t *testing.T) {
	inBubble(t, func(context.Context) { runtime.Goexit() }, func(t *testing.T, cs *couriers) {
		for range 2 {
			trip := newTrip()
			cs.send(t.Context(), trip)
			<-trip.done
		}
		if n := cs.idleNow(); n != 0 {
			t.Errorf("%d couriers are idle, whose goroutines have ended", n)
		}
	})
}
