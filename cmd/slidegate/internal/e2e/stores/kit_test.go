package stores_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open/opentest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestMain checks that nothing keeps running after Close.
func TestMain(m *testing.M) { opentest.Main(m) }

var ctx = context.Background()

// The stores of the tests.
var (
	openStore = opentest.Open
	hasty     = opentest.ShortTimeouts
	limiter   = opentest.Limiter
	allow     = opentest.Allow
)

// openConnected is like open, but waits until the store answers: on a busy machine that may take more than one attempt.
func openConnected(t testing.TB, url string, opts open.Options) *open.Opened {
	t.Helper()
	o := openStore(t, url, opts)
	testkit.Eventually(t, "the store is connected", func() bool { return isUp(o) })
	return o
}

// isUp reports whether a store is connected and decides.
func isUp(o *open.Opened) bool { return o.Err() == nil && o.Health() == nil }

// patientOptions returns options with which a busy machine is not taken for a store that is down, and refusals stay cached.
func patientOptions() open.Options {
	return open.Options{Timeout: 5 * time.Second, ProbeEvery: 5 * time.Second, Watch: true, RefusalAge: time.Minute}
}

var namespaces atomic.Int64
