package shadow

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"golang.org/x/time/rate"
)

// TestOldLimiterDecides checks that the old limiter decides, and that differences are logged.
func TestOldLimiterDecides(t *testing.T) {
	for _, c := range []struct {
		quota, differences int64 // of the new limiter
	}{{3, 0}, {2, 1}} {
		var logged bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		old := rate.NewLimiter(rate.Every(time.Hour), 3)
		limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerHour(c.quota))
		for i := range 4 {
			if got := allow(t.Context(), old, limiter, "client-7"); got != (i < 3) {
				t.Errorf("quota %d: got %v for request %d, want %v", c.quota, got, i+1, i < 3)
			}
		}
		if got := strings.Count(logged.String(), "the limiters differ"); got != int(c.differences) {
			t.Errorf("quota %d: %d differences are logged, want %d:\n%s", c.quota, got, c.differences, &logged)
		}
	}
}
