package slidegate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A limiter without limits is usually a mistake; the error names the constructor for when it is not.
func TestNewWithoutLimits(t *testing.T) {
	_, err := slidegate.New(newReference())
	_, err2 := slidegate.NewWithOptions(newReference(), slidegate.Options{Namespace: "shop"})
	for _, err := range []error{err, err2} {
		if !errors.Is(err, slidegate.ErrLimit) || !strings.Contains(err.Error(), "NewPerCall") {
			t.Errorf("no limits: got %v, want an ErrLimit that names NewPerCall", err)
		}
	}
	_, err = slidegate.New(nil)
	_, err2 = slidegate.NewPerCall(nil, "")
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "store: must not be nil") {
			t.Errorf("no store: got %v", err)
		}
	}
}

func TestMustNew(t *testing.T) {
	if d := allow(t, slidegate.MustNew(newReference(), slidegate.PerDay(5)), "k", 1); !d.Allowed || d.Remaining != 4 {
		t.Errorf("the first of 5 a day: got %+v, want allowed, Remaining 4", d)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, slidegate.ErrLimit) {
			t.Errorf("an invalid limit panics with %v, want ErrLimit", err)
		}
	}()
	slidegate.MustNew(newReference(), slidegate.PerSecond(0))
}

func TestPerDay(t *testing.T) {
	if got, want := slidegate.PerDay(7), (slidegate.Limit{Quota: 7, Window: 24 * time.Hour}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A limiter for limits per call keeps its namespace. The methods that need limits of its own return errors.
func TestPerCall(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, _ *storetest.Clock) {
		limit := slidegate.Limit{Name: "user", Quota: 2, Window: time.Minute}
		perCall, err := slidegate.NewPerCall(st, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := perCall.Allow(t.Context(), "ann"); !errors.Is(err, slidegate.ErrLimit) {
			t.Errorf("Allow without limits: got %v, want ErrLimit", err)
		}
		shop, err := slidegate.NewWithOptions(st, slidegate.Options{Namespace: "shop", Limits: []slidegate.Limit{limit}})
		if err != nil {
			t.Fatal(err)
		}
		allow(t, shop, "ann", 1)
		if d, err := perCall.For(claim(limit, "ann", 1)).Allow(t.Context()); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("the second of two in the same namespace: got %+v, %v, want allowed, Remaining 0", d, err)
		}
		with, err := perCall.With(limit)
		if err != nil {
			t.Fatal(err)
		}
		if d := allow(t, with, "ann", 1); d.Allowed {
			t.Errorf("the third of two: got %+v, want denied", d)
		}
	})
}

// AllowLimit decides in every field as a limiter of that limit does, instead of by the limiter's own limits, and on the
// same counts.
func TestAllowLimit(t *testing.T) {
	overStores(t, func(t *testing.T, st store.Store, clock *storetest.Clock) {
		own, given := slidegate.PerHour(1), slidegate.Limit{Name: "plan", Quota: 3, Window: time.Minute}
		limiter, twin := newLimiter(t, st, own), newLimiter(t, st, given)
		for i := range int64(5) {
			want, err := twin.Peek(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			if want.Allowed {
				want.Granted, want.Remaining, want.ResetAfter = 1, want.Remaining-1, 0
			}
			got, err := limiter.AllowLimit(t.Context(), "ann", given)
			if got.Allowed {
				got.ResetAfter = 0 // the charge changed it
			}
			if err != nil || got.Allowed != (i < 3) || got.LimitName != "plan" || got.Granted != want.Granted ||
				got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter || got.ResetAfter != want.ResetAfter || got.At != want.At {
				t.Errorf("request %d: %+v, %v, want %+v", i, got, err, want)
			}
			clock.Advance(1000)
		}
		if d := allow(t, limiter, "ann", 1); !d.Allowed {
			t.Errorf("the limiter's own limit was charged: got %+v, want allowed", d)
		}
	})
}

func TestAllowLimitErrors(t *testing.T) {
	limiter := newPerCall(t, noBuckets{newReference()})
	if _, err := limiter.AllowLimit(t.Context(), "k", slidegate.Limit{Quota: 1}); !errors.Is(err, slidegate.ErrLimit) {
		t.Errorf("a limit without a window: %v", err)
	}
	bucket := slidegate.Limit{Quota: 1, Window: time.Second, Algorithm: slidegate.TokenBucket}
	if _, err := limiter.AllowLimit(t.Context(), "k", bucket); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("a limit that the store cannot keep: %v", err)
	}
}

func TestAllowLimitAllocatesNothing(t *testing.T) {
	limiter, err := slidegate.NewPerCall(memstore.NewDefault(), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, limit := t.Context(), slidegate.PerHour(1_000_000)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := limiter.AllowLimit(ctx, "k", limit); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// countingLayer is a layer that counts the calls that go through it.
type countingLayer struct {
	store.Store
	calls *int
}

func (c countingLayer) Apply(ctx context.Context, batch []store.Request) error {
	*c.calls++
	return c.Store.Apply(ctx, batch)
}

// Over puts a layer under a limiter: the same limits, namespace and counts, now through the layer. The original limiter is
// unchanged.
func TestOver(t *testing.T) {
	st := newReference()
	below, err := slidegate.NewWithOptions(st, slidegate.Options{Namespace: "shop", Limits: []slidegate.Limit{slidegate.PerHour(3)}})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	above, err := below.Over(func(s store.Store) (store.Store, error) { return countingLayer{s, &calls}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if d := allow(t, below, "ann", 1); d.Remaining != 2 || calls != 0 {
		t.Errorf("without the layer: %+v after %d calls through it", d, calls)
	}
	if d := allow(t, above, "ann", 1); d.Remaining != 1 || calls != 1 {
		t.Errorf("through the layer: %+v after %d calls through it", d, calls)
	}
	if d, err := above.AllowLimit(t.Context(), "ann", slidegate.PerHour(3)); err != nil || d.Remaining != 0 || calls != 2 {
		t.Errorf("a limit per call: %+v, %v after %d calls through the layer", d, err, calls)
	}
	perCall := newPerCall(t, st)
	if over, err := perCall.Over(func(s store.Store) (store.Store, error) { return s, nil }); err != nil || len(over.Limits()) != 0 {
		t.Errorf("a limiter without limits of its own: %v", err)
	}
}

func TestOverErrors(t *testing.T) {
	limiter, broken := newLimiter(t, newReference(), slidegate.PerHour(3)), errors.New("broken")
	if _, err := limiter.Over(func(store.Store) (store.Store, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("a failing wrap: got %v, want its error", err)
	}
	if _, err := limiter.Over(func(store.Store) (store.Store, error) { return nil, nil }); err == nil {
		t.Error("got no error for a nil store")
	}
	bucket := newLimiter(t, newReference(), slidegate.Limit{Quota: 1, Window: time.Second, Algorithm: slidegate.TokenBucket})
	if _, err := bucket.Over(func(s store.Store) (store.Store, error) { return noBuckets{s}, nil }); !errors.Is(err, slidegate.ErrUnsupported) {
		t.Errorf("a store that cannot keep the limit: %v", err)
	}
}
