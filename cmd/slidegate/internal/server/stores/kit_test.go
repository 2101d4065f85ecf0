package stores_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/store"
)

// TestMain sees to it that nothing goes on after Close. Tests with real servers are in the program's end-to-end tests.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

var ctx = context.Background()

func open(t testing.TB, url string, opts stores.Options) *stores.Opened {
	t.Helper()
	o, err := stores.Open(ctx, url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// hasty are options under which an outage is soon over.
func hasty() stores.Options {
	return stores.Options{Timeout: 50 * time.Millisecond, ProbeEvery: 50 * time.Millisecond, Failures: 1}
}

// limiter returns one of 3 units an hour, which shares its counts with others of the same namespace.
func limiter(t testing.TB, store store.Store, namespace string) *slidegate.Limiter {
	t.Helper()
	l, err := slidegate.NewWithOptions(store, slidegate.Options{
		Namespace: namespace, Limits: []slidegate.Limit{{Quota: 3, Window: time.Hour, Algorithm: slidegate.SlidingLog}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func allow(t testing.TB, l *slidegate.Limiter) slidegate.Decision {
	t.Helper()
	d, err := l.Allow(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	return d
}
