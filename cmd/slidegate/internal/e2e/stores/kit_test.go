package stores_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/store"
)

// TestMain sees to it that nothing goes on after Close, but for what a client of a cluster leaves behind: goroutines that
// are asleep for a few seconds before they would look for nodes again, or let go of old ones, and then end by themselves.
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

// connected is open, and waits until the store answers: on a busy machine that may take more than one attempt.
func connected(t testing.TB, url string, opts stores.Options) *stores.Opened {
	t.Helper()
	o := open(t, url, opts)
	until(t, "the store to be connected", func() bool { return o.Ping(ctx) == nil })
	return o
}

// until waits for something to come about.
func until(t testing.TB, what string, good func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !good() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// patient are options under which a busy machine is not taken for a store that is down, and forgets no refusal.
func patient() stores.Options {
	return stores.Options{Timeout: 5 * time.Second, ProbeEvery: 5 * time.Second, DenyAge: time.Minute}
}

// hasty are options under which an outage is soon over.
func hasty() stores.Options {
	return stores.Options{Timeout: 50 * time.Millisecond, ProbeEvery: 50 * time.Millisecond, Failures: 1}
}

var namespaces atomic.Int64

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
