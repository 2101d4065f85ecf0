package slidegate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// bubbleStore is the reference store with the time of a synctest bubble.
type bubbleStore struct {
	store.Store
	clock *storetest.Clock
}

func (b bubbleStore) Apply(ctx context.Context, batch []store.Request) error {
	b.clock.Set(rule.Micros(time.Now().UnixMicro()))
	return b.Store.Apply(ctx, batch)
}

// withLimiter runs a test in virtual time with a limiter.
func withLimiter(t *testing.T, test func(t *testing.T, limiter *slidegate.Limiter), limits ...slidegate.Limit) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(storetest.Clock)
		test(t, slidegate.MustNew(bubbleStore{storetest.NewReference(clock), clock}, limits...))
	})
}

func held(quota int64) slidegate.Limit {
	return slidegate.Limit{Quota: quota, Window: time.Second, Hold: 30 * time.Second}
}

// A call that outlasts the window, and the hold, keeps its units while KeepAlive renews them, and charges what it used at its end.
func TestKeepAlive(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		r, d, err := limiter.Reserve(ctx, "k", 8)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		alive, stop := limiter.KeepAlive(ctx, r, 0)
		defer stop()
		testkit.Pass(10 * time.Minute)
		if d, _ := limiter.AllowN(ctx, "k", 3); d.Allowed || d.Flags != rule.Held {
			t.Errorf("with 8 of 10 held: got %+v, want a refusal because of what is held", d)
		}
		s, err := limiter.SettleAll(ctx, r, 6)
		if err != nil || s.Returned[0] != 2 {
			t.Errorf("settled: %+v, %v, want 2 of 8 returned", s, err)
		}
		if d, _ := limiter.AllowN(ctx, "k", 5); d.Allowed || d.Remaining != 4 {
			t.Errorf("right after 6 of 10 were charged: got %+v, want a refusal with 4 left", d)
		}
		testkit.Pass(2 * time.Minute)
		if d, _ := limiter.AllowN(ctx, "k", 10); !d.Allowed || alive.Err() != nil {
			t.Errorf("two minutes later: got %+v, %v, want everything free, and a context that has not ended", d, alive.Err())
		}
	}, held(10))
}

// A reservation that nobody renews is lost after its hold, and its KeepAlive ends after the longest time.
func TestKeepAliveEnds(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		r, _, _ := limiter.Reserve(ctx, "k", 8)
		alive, stop := limiter.KeepAlive(ctx, r, time.Minute)
		defer stop()
		start := time.Now()
		<-alive.Done()
		if took := time.Since(start); took != time.Minute || !errors.Is(context.Cause(alive), slidegate.ErrLost) {
			t.Errorf("ended after %v with %v, want a minute and ErrLost", took, context.Cause(alive))
		}
		testkit.Pass(30 * time.Second)
		if d, _ := limiter.AllowN(ctx, "k", 10); !d.Allowed {
			t.Errorf("a hold after the last renewal: got %+v, want everything free", d)
		}
	}, held(10))
}

// What was lost is found out at the next renewal.
func TestKeepAliveFindsOutWhatIsLost(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		r, _, _ := limiter.Reserve(ctx, "k", 8)
		alive, stop := limiter.KeepAlive(ctx, r, 0)
		defer stop()
		if err := limiter.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-alive.Done()
		if took := time.Since(start); took != 10*time.Second || !errors.Is(context.Cause(alive), slidegate.ErrLost) {
			t.Errorf("ended after %v with %v, want a third of the hold and ErrLost", took, context.Cause(alive))
		}
		if d, err := limiter.Renew(ctx, r); err != nil || d.Allowed || d.RetryAfter != slidegate.Never {
			t.Errorf("renewed what is lost: %+v, %v", d, err)
		}
	}, held(10))
}

// Limits without Hold are charged when the reservation is made, beside those that hold.
func TestHoldBesideAPlainLimit(t *testing.T) {
	withLimiter(t, func(t *testing.T, limiter *slidegate.Limiter) {
		ctx := t.Context()
		r, d, err := limiter.Reserve(ctx, "k", 4)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		testkit.Pass(2 * time.Second)
		d, err = limiter.Peek(ctx, "k", 1)
		if err != nil || d.Answers[0].Remaining != 6 || d.Answers[1].Remaining != 10 {
			t.Errorf("after two windows: got %+v, %v, want 4 held of the first, and nothing charged to the second any more", d, err)
		}
		if s, err := limiter.Cancel(ctx, r); err != nil || s.Returned[0] != 4 || s.Returned[1] != 0 {
			t.Errorf("cancelled: %+v, %v, want what was held", s, err)
		}
	}, held(10), slidegate.Limit{Name: "requests", Quota: 10, Window: time.Second})
}
