package redisstore

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
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
		cs := &couriers{conn: do}
		defer cs.end()
		test(t, cs)
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

func TestBusyCourierEndsAfterItsTrip(t *testing.T) {
	inBubble(t, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, cs *couriers) {
		ctx, cancel := context.WithCancel(t.Context())
		trip := newTrip()
		cs.send(ctx, trip)
		synctest.Wait()
		cs.end()
		cancel()
		<-trip.done
		if n := cs.idleNow(); n != 0 {
			t.Errorf("%d couriers are idle after the end", n)
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

// A store has no Close: its couriers end when it is garbage.
func TestCouriersEndWithTheStore(t *testing.T) {
	s, err := NewWithConn(scripted(func(context.Context) {}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	trip := newTrip()
	if err := s.run(t.Context(), trip); err != nil {
		t.Fatal(err)
	}
	cs := s.couriers
	runtime.KeepAlive(s)
	for range 1000 {
		runtime.GC()
		cs.mu.Lock()
		ended := cs.ended
		cs.mu.Unlock()
		if ended {
			return
		}
	}
	t.Error("the couriers of a store that is garbage have not ended")
}
