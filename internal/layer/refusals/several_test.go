package refusals_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// pairOf returns a request over two per minute and three per hour, in fixed windows.
func pairOf(t testing.TB, perMinute, perHour int64) []store.Charge {
	t.Helper()
	hour := bound(t, slidegate.Limit{Name: "hour", Quota: 3, Window: time.Hour, Algorithm: slidegate.FixedWindow})
	return []store.Charge{{Limit: fixed(t), Key: "key", Cost: perMinute}, {Limit: hour, Key: "tenant", Cost: perHour}}
}

// TestSeveralLimits checks that a request over several limits is remembered as a whole, until the first of the refusing
// limits would admit it.
func TestSeveralLimits(t *testing.T) {
	r := newRig(t, forever, true)
	both := pairOf(t, 1, 1)
	r.several(rule.Take, "g", both...)
	r.several(rule.Take, "g", both...)
	r.pass(10 * time.Second)
	r.several(rule.Take, "g", both...) // the minute refuses, the hour has 1 left
	r.wantCalls(3, "up to the refusal")
	r.pass(20 * time.Second)
	answers := r.several(rule.Take, "g", both...)
	r.wantAnswer(answers[0], rule.Answer{
		Flags: rule.Cached, RetryAfter: 30 * second, ResetAfter: 30 * second, At: epoch + 30*second,
	}, "the minute")
	r.wantAnswer(answers[1], rule.Answer{
		Allowed: true, Flags: rule.Cached, Remaining: 1, ResetAfter: 3570 * second, At: epoch + 30*second,
	}, "the hour")
	r.several(rule.Peek, "g", both...)
	r.several(rule.Take, "g", pairOf(t, 2, 1)...) // more from the limit that refuses
	r.several(rule.Take, "g", pairOf(t, 2, 0)...) // less from the limit that admits
	r.wantCalls(0, "remembered")

	r.several(rule.Take, "g", both[0])
	r.wantCalls(1, "one of them alone is another request")
	r.several(rule.Take, "", both...)
	r.wantCalls(1, "another group")
	r.several(rule.Take, "g", both[1], both[0])
	r.wantCalls(1, "another order")
	r.several(rule.Take, "g", pairOf(t, 1, 2)...)
	r.wantCalls(1, "more than remained of the limit that admitted: the time to retry is unknown")

	r.pass(30 * time.Second)
	if a := r.several(rule.Take, "g", both...); !a[0].Allowed || !a[1].Allowed {
		t.Fatalf("in the next minute: got %+v, want both allowed", a)
	}
	r.wantCalls(1, "in the next minute")
}

// TestBothRefuse checks that a refusal by both limits is remembered until the earlier time to retry, when one of the
// answers changes.
func TestBothRefuse(t *testing.T) {
	r := newRig(t, forever, true)
	r.several(rule.Charge, "g", pairOf(t, 2, 3)...)
	both := pairOf(t, 1, 1)
	r.several(rule.Take, "g", both...)
	r.spy.requests.Store(0)
	r.pass(time.Minute - time.Microsecond)
	a := r.several(rule.Take, "g", both...)
	if a[0].RetryAfter != 1 || a[1].RetryAfter != 3540*second+1 {
		t.Fatalf("before the end of the minute: got %+v, want RetryAfter 1 and 3540000001", a)
	}
	r.wantCalls(0, "before the end of the minute")
	r.pass(time.Microsecond)
	a = r.several(rule.Take, "g", both...)
	if !a[0].Allowed || a[1].Allowed || a[1].RetryAfter != 3540*second {
		t.Fatalf("at the end of the minute: got %+v, want allowed, refused, RetryAfter 3540s", a)
	}
	r.wantCalls(1, "at the end of the minute")
	r.pass(time.Minute)
	r.several(rule.Take, "g", both...)
	r.wantCalls(0, "in the next minute")
}

// TestSeveralWithCountRefused checks that with one limit that counts refused requests, every request reaches the store.
func TestSeveralWithCountRefused(t *testing.T) {
	r := newRig(t, forever, true)
	counting := bound(t, slidegate.Limit{Name: "counting", Quota: 5, Window: time.Hour, CountRefused: true})
	charges := append(pairOf(t, 2, 1), store.Charge{Limit: counting, Key: "key", Cost: 1})
	for range 4 {
		r.several(rule.Take, "g", charges...)
	}
	r.wantCalls(4, "each time")
}

// TestNeverAmongSeveral checks that a request that one limit can never admit goes to the store.
func TestNeverAmongSeveral(t *testing.T) {
	r := newRig(t, forever, true)
	r.several(rule.Charge, "g", pairOf(t, 2, 3)...)
	for range 3 {
		if a := r.several(rule.Take, "g", pairOf(t, 1, 4)...); a[1].RetryAfter != rule.Never {
			t.Fatalf("got %+v, want Never for the second", a)
		}
	}
	r.wantCalls(4, "each time")
	r.several(rule.Take, "g", pairOf(t, 1, 1)...)
	a := r.several(rule.Take, "g", pairOf(t, 1, 4)...)
	if a[1].RetryAfter != rule.Never || a[1].ResetAfter != 3600*second {
		t.Fatalf("more than the capacity, where less is known to be refused: got %+v, want RetryAfter Never, ResetAfter 3600s", a)
	}
	r.wantCalls(1, "where less is known to be refused")
}

// TestResetOfOne checks that a refusal is forgotten when any of its addresses is reset or refunded.
func TestResetOfOne(t *testing.T) {
	for place := range 2 {
		r := newRig(t, forever, true)
		r.several(rule.Charge, "g", pairOf(t, 2, 3)...)
		both := pairOf(t, 1, 1)
		r.several(rule.Take, "g", both...)
		r.several(rule.Reset, "g", both[place])
		if a := r.several(rule.Take, "g", both...); !a[place].Allowed || a[1-place].Allowed {
			t.Fatalf("after the reset of %d: got %+v, want only that one allowed", place, a)
		}
	}
}

func TestTooManyCharges(t *testing.T) {
	r := newRig(t, forever, true)
	var charges []store.Charge
	for i := range 9 {
		charges = append(charges, store.Charge{Limit: fixed(t), Key: string(rune('a' + i)), Cost: 2})
	}
	for range 3 {
		r.several(rule.Take, "g", charges...)
	}
	r.wantCalls(3, "nine charges")
	for range 3 {
		r.several(rule.Take, "g", charges[:8]...)
	}
	r.wantCalls(1, "eight charges")
}

// TestBatch checks that known refusals are answered, and that the rest goes to the store in one call, in order.
func TestBatch(t *testing.T) {
	r := newRig(t, forever, true)
	limit := fixed(t)
	r.do(rule.Charge, limit, "known", 2)
	r.do(rule.Take, limit, "known", 1)
	r.do(rule.Charge, limit, "reset", 2)
	r.do(rule.Take, limit, "reset", 1)
	r.spy.requests.Store(0)
	r.spy.calls.Store(0)
	request := func(op rule.Op, key string, cost int64) store.Request {
		return store.Request{
			Op: op, Charges: []store.Charge{{Limit: limit, Key: key, Cost: cost}}, Answers: make([]rule.Answer, 1),
			Err: context.Canceled,
		}
	}
	batch := []store.Request{
		request(rule.Take, "known", 1),
		request(rule.Take, "new", 2),
		request(rule.Take, "reset", 1),
		request(rule.Reset, "reset", 0),
		request(rule.Take, "reset", 1),
		request(rule.Peek, "known", 2),
		request(rule.Take, "new", 1),
	}
	if err := r.store.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		allowed bool
		flags   rule.Flags
	}{{false, rule.Cached}, {true, 0}, {false, 0}, {true, 0}, {true, 0}, {false, rule.Cached}, {false, 0}} {
		if a := batch[i].Answers[0]; batch[i].Err != nil || a.Allowed != want.allowed || a.Flags != want.flags {
			t.Errorf("request %d: got %+v, %v, want allowed %t, flags %v", i, a, batch[i].Err, want.allowed, want.flags)
		}
	}
	if calls := r.spy.calls.Load(); calls != 1 {
		t.Errorf("got %d calls, want 1", calls)
	}
	r.wantCalls(5, "the rest of the batch")
	r.do(rule.Take, limit, "new", 1)
	r.wantCalls(0, "refused in the batch")
	r.spy.calls.Store(0)
	known := []store.Request{batch[0], batch[5]}
	if err := r.store.Apply(context.Background(), known); err != nil || r.spy.calls.Load() != 0 {
		t.Errorf("a batch of known refusals: %v, %d calls", err, r.spy.calls.Load())
	}
}

// TestBatchErrors checks that each request of a batch has its own error, and that Apply returns the first.
func TestBatchErrors(t *testing.T) {
	r := newRig(t, forever, true)
	limit := fixed(t)
	r.do(rule.Charge, limit, "known", 2)
	r.do(rule.Take, limit, "known", 1)
	charges := []store.Charge{{Limit: limit, Key: "known", Cost: 1}}
	other := []store.Charge{{Limit: limit, Key: "other", Cost: 1}}
	batch := []store.Request{
		{Charges: charges, Answers: make([]rule.Answer, 1), Err: context.Canceled},
		{Charges: other, Answers: nil}, // no space for the answer
		{Charges: other, Answers: make([]rule.Answer, 1), Err: context.Canceled},
		{Charges: nil},
	}
	err := r.store.Apply(context.Background(), batch)
	if err == nil || err != batch[1].Err || batch[0].Err != nil || batch[2].Err != nil || batch[3].Err == nil {
		t.Fatalf("got %v of %v, %v, %v, %v, want the second request's error, of errors of the second and the fourth",
			err, batch[0].Err, batch[1].Err, batch[2].Err, batch[3].Err)
	}
	if !batch[2].Answers[0].Allowed || batch[0].Answers[0].Flags != rule.Cached {
		t.Fatalf("got %+v and %+v, want one from memory and an admission", batch[0].Answers[0], batch[2].Answers[0])
	}
	// A known refusal without space for its answer is left for the store to reject.
	if err := r.store.Apply(context.Background(), []store.Request{{Charges: charges}}); err == nil {
		t.Fatal("got no error without space for the answer")
	}
}
