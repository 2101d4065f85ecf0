package stores_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores/storestest"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
)

// TestMain checks that nothing keeps running after Close.
func TestMain(m *testing.M) { storestest.Main(m) }

var ctx = context.Background()

// The stores of the tests.
var (
	open    = storestest.Open
	hasty   = storestest.ShortTimeouts
	limiter = storestest.Limiter
	allow   = storestest.Allow
)

// openConnected is like open, but waits until the store answers: on a busy machine that may take more than one attempt.
func openConnected(t testing.TB, url string, opts stores.Options) *stores.Opened {
	t.Helper()
	o := open(t, url, opts)
	testkit.Eventually(t, "the store is connected", func() bool { return o.Ping(ctx) == nil })
	return o
}

// patientOptions returns options with which a busy machine is not taken for a store that is down, and refusals stay cached.
func patientOptions() stores.Options {
	return stores.Options{Timeout: 5 * time.Second, ProbeEvery: 5 * time.Second, DenyAge: time.Minute}
}

var namespaces atomic.Int64
