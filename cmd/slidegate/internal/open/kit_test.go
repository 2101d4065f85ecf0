package open_test

import (
	"context"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/open/opentest"
)

// TestMain checks that no goroutines are left after Close. Tests with real servers are in the program's end-to-end tests.
func TestMain(m *testing.M) { opentest.Main(m) }

var ctx = context.Background()

// The stores of tests.
var (
	openStore = opentest.Open
	hasty     = opentest.ShortTimeouts
	limiter   = opentest.Limiter
	allow     = opentest.Allow
)
