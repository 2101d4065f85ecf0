package httplimit

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
)

// At half past noon 30 of 100 units are used, in an hour's window that starts at noon.
func TestDialects(t *testing.T) {
	limit := slidegate.Limit{Name: "api", Quota: 100, Window: time.Hour, Algorithm: slidegate.SlidingWindow}
	for _, test := range []struct {
		dialect Headers
		want    map[string]string
	}{
		{HeadersIETF, map[string]string{"RateLimit-Policy": `"api";q=100;w=3600`, "RateLimit": `"api";r=69;t=5400`}},
		{HeadersDraft03, map[string]string{"RateLimit-Limit": "100", "RateLimit-Remaining": "69", "RateLimit-Reset": "5400"}},
		{HeadersX, map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "69", "X-RateLimit-Reset": strconv.FormatInt(int64(noon)/1e6+7200, 10)}},
		{HeadersXDelta, map[string]string{"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "69", "X-RateLimit-Reset": "5400"}},
		{HeadersNone, map[string]string{"RateLimit": "", "RateLimit-Policy": "", "RateLimit-Limit": "", "X-RateLimit-Limit": ""}},
	} {
		p := newPlay(t, Options{Headers: test.dialect}, nil, limit)
		p.wait(30 * time.Minute)
		if _, err := p.limiter.AllowN(t.Context(), "192.0.2.1", 30); err != nil {
			t.Fatal(err)
		}
		w := p.from("192.0.2.1")
		for name, want := range test.want {
			if got := w.Header().Get(name); got != want {
				t.Errorf("dialect %d: got %s %q, want %q", test.dialect, name, got, want)
			}
		}
	}
}

// Several limits have one item each, also those with names that need quoting.
func TestIETFWithSeveralLimits(t *testing.T) {
	first, second := slidegate.PerMinute(2), slidegate.PerHour(1000)
	first.Name = `a "quoted" \ name`
	second.Window = 1500 * time.Millisecond // no whole number of seconds: w is left out
	p := newPlay(t, Options{}, nil, first, second)
	h := p.from("192.0.2.1").Header()
	if got, want := h.Get("RateLimit-Policy"), `"a \"quoted\" \\ name";q=2;w=60, "1000/1.5s";q=1000`; got != want {
		t.Errorf("got RateLimit-Policy %s, want %s", got, want)
	}
	if got, want := h.Get("RateLimit"), `"a \"quoted\" \\ name";r=1;t=60, "1000/1.5s";r=999;t=`; !strings.HasPrefix(got, want) {
		t.Errorf("got RateLimit %s, want %s", got, want)
	}
}

func TestBodies(t *testing.T) {
	limit := slidegate.PerMinute(1)
	limit.Name = `the "api"`
	for body, want := range map[Body]struct{ contentType, text string }{
		BodyProblem: {"application/problem+json", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
			`"detail":"The quota is used up. Try again in 60 seconds.","violated-policies":["the \"api\""],"retry_after":60}` + "\n"},
		BodyJSON: {"application/json", `{"error":"rate limited","limit":"the \"api\"","retry_after":60}` + "\n"},
		BodyText: {"text/plain; charset=utf-8", "The quota is used up. Try again in 60 seconds.\n"},
		BodyNone: {"", ""},
	} {
		p := newPlay(t, Options{Body: body}, nil, limit)
		p.from("192.0.2.1")
		w := p.from("192.0.2.1")
		if w.Code != 429 || w.Body.String() != want.text || w.Header().Get("Content-Type") != want.contentType {
			t.Errorf("body %d: got %d as %q\n%s\nwant 429 as %q\n%s", body, w.Code, w.Header().Get("Content-Type"), w.Body, want.contentType, want.text)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") != "60" {
			t.Errorf("body %d: got headers %v, want Cache-Control no-store and Retry-After 60", body, w.Header())
		}
		if body <= BodyJSON && !json.Valid(w.Body.Bytes()) {
			t.Errorf("body %d: got %s, want valid JSON", body, w.Body)
		}
	}
}
