package failure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// countdownOf starts a countdown that belongs to no node.
func countdownOf(ctx context.Context, timeout time.Duration) (*callContext, *countdown) {
	s := &Store{opts: Options{Timeout: timeout}}
	s.countdowns.New = s.newCountdown
	return s.startCountdown(ctx, time.Now(), nil, 0)
}

// play makes the steps of a 100ms countdown late, each by that many milliseconds, and returns how the call ended.
func play(t *testing.T, lateness ...int) (over, late, starved bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, c := countdownOf(t.Context(), 100*time.Millisecond)
		c.timer.Stop() // the test ticks instead
		for i, ms := range lateness {
			if ctx.Err() != nil {
				t.Fatalf("the context ended after %d of %d steps", i, len(lateness))
			}
			c.endStep(c.due.Add(time.Duration(ms) * time.Millisecond))
			c.timer.Stop()
		}
		err := ctx.Err()
		if over = err != nil; over && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context ended with %v, want context.DeadlineExceeded", err)
		}
		_, late, starved = c.end()
	})
	return over, late, starved
}

// Only steps in which the process ran are counted, and every call ends.
func TestCountdown(t *testing.T) {
	for _, test := range []struct {
		name                string
		lateness            []int // of the steps, which take 25ms each
		over, late, starved bool
	}{
		{"an answer at once", nil, false, false, false},
		{"an answer after 80ms", []int{0, 0, 0}, false, false, false},
		{"no answer", []int{0, 0, 0, 0}, true, true, false},
		{"no answer, and a busy machine", []int{20, 20, 20, 20}, true, true, false},
		{"stopped for 300ms", []int{300}, false, false, true},
		{"stopped before the last step", []int{0, 0, 0, 300}, false, false, true},
		{"stopped, and then no answer", []int{300, 0, 0, 0, 0}, true, true, false},
		{"stopped twice", []int{0, 300, 0, 300, 0}, false, false, true},
		{"hardly ever running", []int{90, 90, 90, 90, 90, 90, 90, 90}, true, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			over, late, starved := play(t, test.lateness...)
			if over != test.over || late != test.late || starved != test.starved {
				t.Errorf("over %t, late %t, starved %t, want %t, %t, %t", over, late, starved, test.over, test.late, test.starved)
			}
		})
	}
}

// The steps add up to the timeout, even if it is not divisible.
func TestCountdownIsExact(t *testing.T) {
	for _, timeout := range []time.Duration{1, 3, 7, 101 * time.Millisecond, time.Second + 1} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, c := countdownOf(t.Context(), timeout)
			<-ctx.Done()
			if took := time.Since(start); took != timeout {
				t.Errorf("a timeout of %v took %v", timeout, took)
			}
			if _, late, _ := c.end(); !late {
				t.Errorf("a timeout of %v passed, and the call is not late", timeout)
			}
		})
	}
}

// The end of the caller's context is not the end of the countdown.
func TestCountdownOfACallerThatHasGone(t *testing.T) {
	parent, leave := context.WithCancel(t.Context())
	ctx, c := countdownOf(parent, time.Hour)
	leave()
	<-ctx.Done()
	if _, late, starved := c.end(); ctx.Err() != context.Canceled || late || starved {
		t.Errorf("got %v, late %t, starved %t; want context.Canceled and neither", ctx.Err(), late, starved)
	}
}
