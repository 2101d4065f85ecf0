package shadow

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

// TestOldLimiterDecides checks that the old limiter decides, that differences are logged, and that the limiters do not disturb each
// other in the same Redis.
func TestOldLimiterDecides(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("SAMPLE_REDIS"), ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter := slidegate.MustNew(store, slidegate.PerHour(1))
	for i, differs := range []bool{false, true} { // the new limiter admits the first request only
		var logged bytes.Buffer
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		result, err := allow(t.Context(), redis_rate.NewLimiter(client), limiter, "client-7")
		if err != nil || result.Allowed != 1 {
			t.Fatalf("got %+v, %v for request %d, want it admitted", result, err, i+1)
		}
		if got := strings.Contains(logged.String(), "the limiters differ"); got != differs {
			t.Errorf("a difference is logged for request %d: %v, want %v:\n%s", i+1, got, differs, &logged)
		}
	}
}
