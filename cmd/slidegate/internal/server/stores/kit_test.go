package stores_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores/storestest"
)

// TestMain sees to it that nothing goes on after Close. Tests with real servers are in the program's end-to-end tests.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

var ctx = context.Background()

// The stores of tests.
var (
	open    = storestest.Open
	hasty   = storestest.Hasty
	limiter = storestest.Limiter
	allow   = storestest.Allow
)
