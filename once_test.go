package slidegate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// A call with an ID counts once, in whichever way it is made.
func TestOnce(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		claim := slidegate.Claim{Limit: slidegate.PerHour(10), Key: "claim"}
		with, err := limiter.Once("with").With(slidegate.PerMinute(5))
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range map[string]func() (slidegate.Decision, error){
			"allow":         func() (slidegate.Decision, error) { return limiter.Once("a").Allow(ctx, "allow") },
			"several units": func() (slidegate.Decision, error) { return limiter.Once("n").AllowN(ctx, "several units", 1) },
			"claim":         func() (slidegate.Decision, error) { return limiter.Once("c").For(claim).Allow(ctx) },
			"with":          func() (slidegate.Decision, error) { return with.Allow(ctx, "with") },
			"reserve": func() (slidegate.Decision, error) {
				_, d, err := limiter.Once("r").Reserve(ctx, "reserve", 1)
				return d, err
			},
			"wait": func() (slidegate.Decision, error) {
				err := limiter.Once("w").Wait(ctx, "wait", 1)
				d, _ := limiter.Peek(ctx, "wait", 1)
				d.Granted = 1
				return d, err
			},
		} {
			first, err := call()
			again, errAgain := call()
			if err != nil || errAgain != nil || !first.Allowed || !again.Allowed || again.Remaining != first.Remaining || again.Granted != 1 {
				t.Errorf("%s: got %+v, %v, and again %+v, %v; want one unit charged", name, first, err, again, errAgain)
			}
			if name != "wait" && again.Flags != rule.Repeated {
				t.Errorf("%s: the second answer has the flags %v", name, again.Flags)
			}
		}
		if d, _ := limiter.Allow(ctx, "allow"); d.Remaining != 8 {
			t.Errorf("without an ID: got %+v, want it charged", d)
		}
	}, slidegate.PerHour(10))
}

// A call that is sent again with another estimate has the reservation of the first one.
func TestRepeatedReservation(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		if _, err := limiter.AllowN(ctx, "k", 50); err != nil {
			t.Fatal(err)
		}
		call := limiter.Once("call")
		if _, _, err := call.Reserve(ctx, "k", 10); err != nil {
			t.Fatal(err)
		}
		r, d, err := call.Reserve(ctx, "k", 45)
		if err != nil || d.Granted != 10 || r.Charges[0].Cost != 10 {
			t.Fatalf("again: got %+v and %+v, %v, want 10 reserved", r, d, err)
		}
		if s, err := limiter.Cancel(ctx, r); err != nil || s.Returned[0] != 10 {
			t.Errorf("cancelled: got %+v, %v, want 10 returned", s, err)
		}
		if d, _ := limiter.Peek(ctx, "k", 1); d.Remaining != 50 {
			t.Errorf("%d are left, want 50", d.Remaining)
		}
	}, slidegate.PerHour(100))
}

// A waiter finds its earlier call also if refusals count, which it otherwise avoids by peeking.
func TestWaitOnceIfRefusalsCount(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		for range 2 {
			if err := limiter.Once("call").Wait(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
		}
	}, slidegate.Limit{Quota: 1, Window: time.Hour, CountRefused: true})
}

// A refusal is not remembered; a call that was cancelled is refused, also if it arrives after that.
func TestCancelCall(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		call := limiter.Once("call")
		if d, err := call.AllowN(ctx, "k", 4); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err := limiter.Once("other").AllowN(ctx, "k", 7); err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		s, err := call.CancelCall(ctx, "k")
		if err != nil || s.Returned[0] != 4 || s.Repeated {
			t.Errorf("cancelled: %+v, %v, want 4 returned", s, err)
		}
		if s, err := call.CancelCall(ctx, "k"); err != nil || s.Returned[0] != 4 || !s.Repeated {
			t.Errorf("cancelled again: %+v, %v, want the same, repeated", s, err)
		}
		if err := call.Wait(ctx, "k", 1); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("waiting for the call after its cancellation: %v, want ErrReservation", err)
		}
		if d, err := call.AllowN(ctx, "k", 4); err != nil || d.Allowed || d.RetryAfter != slidegate.Never {
			t.Errorf("the call after its cancellation: %+v, %v, want it refused for good", d, err)
		}
		if d, err := limiter.Once("other").AllowN(ctx, "k", 7); err != nil || !d.Allowed || d.Flags != 0 {
			t.Errorf("the refused call again: %+v, %v, want it decided as a new one", d, err)
		}
		early := limiter.Once("early")
		if s, err := early.CancelCall(ctx, "k"); err != nil || s.Returned[0] != 0 {
			t.Errorf("cancelled before its call: %+v, %v", s, err)
		}
		if d, err := early.Allow(ctx, "k"); err != nil || d.Allowed {
			t.Errorf("the call that was cancelled before: %+v, %v, want it refused", d, err)
		}
	}, slidegate.PerHour(10))
}

// A reservation whose answer was lost has the ID of the call, so it can be taken up again, or cancelled, with its hold and its slot.
func TestReservationOfACall(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		r, _, err := limiter.Once("call").Reserve(ctx, "k", 4)
		if err != nil || r.ID != "call" {
			t.Fatalf("%+v, %v", r, err)
		}
		again, d, err := limiter.Once("call").Reserve(ctx, "k", 4)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if s, err := limiter.SettleAll(ctx, again, 3); err != nil || s.Returned[0] != 1 {
			t.Errorf("settled: %+v, %v", s, err)
		}
		if s, err := limiter.SettleAll(ctx, r, 3); err != nil || !s.Repeated {
			t.Errorf("settled the first copy: %+v, %v, want it repeated", s, err)
		}
		lost := limiter.Once("lost")
		if _, d, _ := lost.Reserve(ctx, "k", 7); !d.Allowed {
			t.Fatalf("%+v", d)
		}
		if s, err := lost.CancelCall(ctx, "k"); err != nil || s.Returned[0] != 7 || s.Returned[1] != 1 {
			t.Errorf("cancelled by its ID: %+v, %v, want the units and the slot", s, err)
		}
	}, slidegate.Limit{Quota: 10, Window: time.Hour, Hold: time.Minute}, slidegate.Slots(2, time.Minute))
}

func TestOnceRejectsWhatDoesNotCountOnce(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		call := limiter.Once("call")
		_, upTo := call.AllowUpTo(ctx, "k", 1)
		_, charge := call.Charge(ctx, "k", 1)
		_, refund := call.Refund(ctx, "k", 1)
		for _, err := range []error{upTo, charge, refund, call.Reset(ctx, "k")} {
			if !errors.Is(err, slidegate.ErrUnsupported) {
				t.Errorf("got %v, want ErrUnsupported", err)
			}
		}
		if _, err := limiter.Once("").Allow(ctx, "k"); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("an empty ID: got %v, want ErrReservation", err)
		}
		if _, err := limiter.CancelCall(ctx, "k"); !errors.Is(err, slidegate.ErrReservation) {
			t.Errorf("without an ID: got %v, want ErrReservation", err)
		}
		if d, err := call.Peek(ctx, "k", 1); err != nil || d.Remaining != 10 {
			t.Errorf("peek: %+v, %v", d, err)
		}
	}, slidegate.PerHour(10))
}
