package stores_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores/storestest"
)

// TestMain checks that no goroutines are left after Close. Tests with real servers are in the program's end-to-end tests.
func TestMain(m *testing.M) { storestest.Main(m) }

var ctx = context.Background()

// The stores of tests.
var (
	open    = storestest.Open
	hasty   = storestest.ShortTimeouts
	limiter = storestest.Limiter
	allow   = storestest.Allow
)
