// Package storestest opens stores for tests. It is imported only by the tests of package stores and by the end-to-end tests, which
// run the databases.
package storestest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/store"
)

// Main runs the tests of a package and fails if goroutines are left afterwards, except those that a Redis client leaves behind:
// they sleep for a few seconds before they would look for nodes again or drop old ones, and then end.
func Main(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// Open opens a store and closes it at the end of the test.
func Open(t testing.TB, url string, opts stores.Options) *stores.Opened {
	t.Helper()
	o, err := stores.Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return o
}

// ShortTimeouts returns options with which an outage ends quickly.
func ShortTimeouts() stores.Options {
	return stores.Options{Timeout: 50 * time.Millisecond, ProbeEvery: 50 * time.Millisecond, Failures: 1}
}

// Limiter returns a limiter of 3 units per hour, which shares its counts with other limiters of the same namespace.
func Limiter(t testing.TB, store store.Store, namespace string) *slidegate.Limiter {
	t.Helper()
	l, err := slidegate.NewWithOptions(store, slidegate.Options{
		Namespace: namespace, Limits: []slidegate.Limit{{Quota: 3, Window: time.Hour, Algorithm: slidegate.SlidingLog}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Allow requests one unit, always of the same key.
func Allow(t testing.TB, l *slidegate.Limiter) slidegate.Decision {
	t.Helper()
	d, err := l.Allow(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	return d
}
