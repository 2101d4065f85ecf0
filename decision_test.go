package slidegate_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// A decision in a log is readable: it shows no internals, and no zero fields.
func TestDecisionInLog(t *testing.T) {
	for _, c := range []struct {
		decision slidegate.Decision
		want     string
	}{
		{slidegate.Decision{Allowed: true, LimitName: "user", Quota: 10, Remaining: 9, Granted: 1, ResetAfter: time.Minute, At: 1},
			"d.allowed=true d.limit=user d.quota=10 d.remaining=9"},
		{slidegate.Decision{LimitName: "10/1m", Quota: 10, RetryAfter: 1500 * time.Millisecond, Flags: rule.Cached | rule.FallbackLocal},
			"d.allowed=false d.limit=10/1m d.quota=10 d.remaining=0 d.retry_after=1.5s d.flags=cached|fallback-local"},
		{slidegate.Decision{LimitName: "user", Quota: 10, Remaining: 10, RetryAfter: slidegate.Never},
			"d.allowed=false d.limit=user d.quota=10 d.remaining=10 d.retry_after=never"},
	} {
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("decided", "d", c.decision)
		if _, got, _ := strings.Cut(strings.TrimSpace(out.String()), "msg=decided "); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestDecisionTime(t *testing.T) {
	want := time.Date(2026, 1, 5, 12, 0, 0, 250_000, time.UTC)
	if got := (slidegate.Decision{At: slidegate.Micros(want.UnixMicro())}).Time(); !got.Equal(want) {
		t.Errorf("%v, want %v", got, want)
	}
}
