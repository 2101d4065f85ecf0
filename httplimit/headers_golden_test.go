package httplimit

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// With several limits, a refusal names the one that takes longest, and reports all.
func TestRefusalOfSeveral(t *testing.T) {
	for dialect, want := range map[Headers]map[string]string{
		HeadersIETF: {"RateLimit": `"m";r=1;t=60, "h";r=0;t=3600`, "RateLimit-Policy": `"m";q=2;w=60, "h";q=1;w=3600`},
		HeadersX: {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0",
			"X-RateLimit-Reset": strconv.FormatInt(int64(noon)/1e6+3600, 10), "RateLimit": "", "RateLimit-Limit": ""},
		HeadersXDelta:  {"X-RateLimit-Limit": "1", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3600"},
		HeadersDraft03: {"RateLimit-Limit": "1", "RateLimit-Remaining": "0", "RateLimit-Reset": "3600", "X-RateLimit-Limit": ""},
		HeadersNone:    {"RateLimit": "", "RateLimit-Policy": "", "RateLimit-Limit": "", "X-RateLimit-Limit": ""},
	} {
		hour := slidegate.PerHour(1)
		hour.Name = "h"
		p := newPlay(t, Options{Headers: dialect, Body: BodyJSON}, nil, named("m", 2), hour)
		p.from("192.0.2.1")
		w := p.from("192.0.2.1")
		if body := `{"error":"rate limited","limit":"h","retry_after":3600}` + "\n"; w.Code != 429 || w.Body.String() != body {
			t.Errorf("dialect %d: got status %d, %s; want 429, %s", dialect, w.Code, w.Body, body)
		}
		if w.Header().Get("Retry-After") != "3600" {
			t.Errorf("dialect %d: got Retry-After %q, want 3600", dialect, w.Header().Get("Retry-After"))
		}
		for name, value := range want {
			if got := w.Header().Get(name); got != value {
				t.Errorf("dialect %d: got %s %q, want %q", dialect, name, got, value)
			}
		}
	}
}

// The largest numbers that a limit accepts are valid in a header, and so are the smallest windows.
func TestLargeAndSmallLimits(t *testing.T) {
	for _, test := range []struct {
		limit          slidegate.Limit
		policy, fields string
	}{
		{slidegate.Limit{Quota: 1<<53 - 1, Window: 5 * 365 * 24 * time.Hour}, `;q=999999999999999;w=157680000`, `;r=999999999999999;t=`},
		{slidegate.Limit{Quota: 5, Window: time.Millisecond}, `;q=5`, `;r=4;t=1`},
		{slidegate.Limit{Quota: 5, Window: 999 * time.Millisecond}, `;q=5`, `;r=4;t=1`},
		{slidegate.Limit{Quota: 5, Window: time.Second}, `;q=5;w=1`, `;r=4;t=`},
	} {
		test.limit.Name = "x"
		p := newPlay(t, Options{}, nil, test.limit)
		w := p.from("192.0.2.1")
		if got := w.Header().Get("RateLimit-Policy"); got != `"x"`+test.policy {
			t.Errorf("%v: got RateLimit-Policy %s, want %s", test.limit, got, `"x"`+test.policy)
		}
		if got := w.Header().Get("RateLimit"); !strings.HasPrefix(got, `"x"`+test.fields) {
			t.Errorf("%v: got RateLimit %s, want prefix %s", test.limit, got, `"x"`+test.fields)
		}
		if got := w.Header().Get("X-RateLimit-Limit"); got != "" {
			t.Errorf("got X-RateLimit-Limit %q of another dialect, want none", got)
		}
	}
}
