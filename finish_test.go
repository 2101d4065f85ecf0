package slidegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

var errWork = errors.New("the work failed")

// finishLimits are a budget and slots.
func finishLimits() []slidegate.Limit {
	return []slidegate.Limit{
		exact("tokens", 10_000, time.Hour), {Name: "running", Quota: 10, Window: time.Hour, Algorithm: slidegate.InFlight},
	}
}

// expectLeft checks what is left of both limits.
func expectLeft(t *testing.T, what string, l *slidegate.Limiter, tokens, slots int64) {
	t.Helper()
	d, err := l.Peek(t.Context(), "k", 1)
	if err != nil || d.Answers[0].Remaining != tokens || d.Answers[1].Remaining != slots {
		t.Errorf("%s: %d tokens and %d slots are left, %v; want %d and %d", what, d.Answers[0].Remaining, d.Answers[1].Remaining, err, tokens, slots)
	}
}

// Finish settles to what happened, also if the store fails a few times, before or after it has decided.
func TestFinish(t *testing.T) {
	tokens := func(n int64) []slidegate.Used { return []slidegate.Used{{Limit: "tokens", Cost: n}} }
	for name, test := range map[string]struct {
		err  error
		used []slidegate.Used
		left int64
	}{
		"used less":            {nil, tokens(1800), 8200},
		"used more":            {nil, tokens(3000), 7000},
		"used nothing":         {nil, tokens(0), 10_000},
		"nothing named":        {nil, nil, 8000},
		"failed":               {errWork, nil, 10_000},
		"failed after some":    {errWork, tokens(500), 9500},
		"failed without usage": {errWork, tokens(0), 10_000},
	} {
		for _, lost := range []int{0, 1, 3} {
			for _, decided := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					late := newLate(t, 1)
					limiter := newLimiter(t, late, finishLimits()...)
					r := reserve(t, limiter, 2000)
					if late.fails[rule.Settle] = lost; decided {
						late.fails[rule.Settle], late.loses[rule.Settle] = 0, lost
					}
					ctx, cancel := context.WithCancel(t.Context())
					cancel() // the client has left
					if _, err := limiter.Finish(ctx, r, test.err, test.used...); err != nil {
						t.Errorf("%s after %d failures: %v", name, lost, err)
					}
					expectLeft(t, name, limiter, test.left, 10)
				})
			}
		}
	}
}

// If the store is down, Finish returns after a bounded time, and the estimate stays; so it does if the work panics or the
// usage is invalid.
func TestFinishNeverRefundsUsedUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newLate(t, 1)
		limiter := newLimiter(t, late, finishLimits()...)
		r := reserve(t, limiter, 2000)
		late.fails[rule.Settle] = 4
		begun := time.Now()
		if _, err := limiter.Finish(t.Context(), r, nil, slidegate.Used{Limit: "tokens", Cost: 1800}); !errors.Is(err, errReset) {
			t.Errorf("%v, want the store's error", err)
		}
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("four attempts took %v, want 2s", took)
		}
		if _, err := limiter.Finish(t.Context(), r, errWork); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("a refund after that: %v, want ErrReservation", err)
		}
		expectLeft(t, "a store that was down", limiter, 8000, 10) // the second Finish freed the slot
		if _, err := limiter.Finish(t.Context(), r, nil, slidegate.Used{Limit: "tokens", Cost: 1800}); err != nil {
			t.Error(err)
		}
		expectLeft(t, "settling again later", limiter, 8200, 10)

		func() {
			defer func() { _ = recover() }()
			var err error
			r := reserve(t, limiter, 1000)
			defer func() { _, _ = limiter.Finish(t.Context(), r, err) }()
			panic("the work panics")
		}()
		expectLeft(t, "a panic", limiter, 7200, 10)

		r = reserve(t, limiter, 1000)
		if _, err := limiter.Finish(t.Context(), r, nil, slidegate.Used{Limit: "token", Cost: 1}); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("a limit that it does not have: %v, want ErrReservation", err)
		}
		expectLeft(t, "an invalid usage", limiter, 6200, 9)
	})
}

// A Cancel after a Settle, however that went, leaves the units as they are. Copies of the reservation know it too.
func TestCancelAfterSettleReturnsNothing(t *testing.T) {
	settleTo := func(name string, n int64) func(context.Context, *slidegate.Limiter, slidegate.Reservation) error {
		return func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.Settle(ctx, r, slidegate.Used{Limit: name, Cost: n}))
		}
	}
	for name, test := range map[string]struct {
		settle        func(context.Context, *slidegate.Limiter, slidegate.Reservation) error
		fails, loses  int
		left          int64
		mayBeRepeated bool
	}{
		"succeeded":       {settleTo("tokens", 1800), 0, 0, 8200, true},
		"failed":          {settleTo("tokens", 1800), 1, 0, 8000, false},
		"lost its answer": {settleTo("tokens", 1800), 0, 1, 8200, false},
		"misspelled":      {settleTo("token", 1800), 0, 0, 8000, false},
		"negative":        {settleTo("tokens", -1), 0, 0, 8000, false},
		"all, failed": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.SettleAll(ctx, r, 1800))
		}, 1, 0, 8000, false},
		"release, failed": {func(ctx context.Context, l *slidegate.Limiter, r slidegate.Reservation) error {
			return errOf(l.Release(ctx, r))
		}, 1, 0, 8000, false},
	} {
		for _, decoded := range []bool{false, true} {
			late := newLate(t, 1)
			limiter := newLimiter(t, late, finishLimits()...)
			r := reserve(t, limiter, 2000)
			if decoded {
				r = throughJSON(t, r)
			}
			late.fails[rule.Settle], late.loses[rule.Settle] = test.fails, test.loses
			copied := r
			if err := test.settle(t.Context(), limiter, copied); (err == nil) != test.mayBeRepeated {
				t.Errorf("%s: %v", name, err)
			}
			done, err := limiter.Cancel(t.Context(), r)
			if test.mayBeRepeated && (err != nil || !done.Repeated || done.Returned[0] != 200) || !test.mayBeRepeated && !errors.Is(err, slidegate.ErrReservation) {
				t.Errorf("%s: Cancel returned %+v, %v", name, done, err)
			}
			expectLeft(t, name, limiter, test.left, 10)
		}
	}
}

// throughJSON encodes and decodes a reservation.
func throughJSON(t *testing.T, r slidegate.Reservation) (back slidegate.Reservation) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// Nil contexts and stores are errors that say so, and not panics.
func TestNilArguments(t *testing.T) {
	limiter := newLimiter(t, newReference(), exact("tokens", 100, time.Minute))
	for _, verb := range keyVerbs() {
		if _, err := verb.call(nil, limiter, "k", 1); err == nil || err.Error() != "slidegate: ctx: must not be nil; use context.Background if there is no other" {
			t.Errorf("%s without a context: %v", verb.name, err)
		}
	}
	var missing *lateStore
	for _, st := range []store.Store{nil, missing} {
		if _, err := slidegate.New(st, slidegate.PerMinute(1)); err == nil {
			t.Errorf("New accepted %#v", st)
		}
	}
}
