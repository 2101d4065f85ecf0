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

// Only printable ASCII is valid in a header.
func TestNamesOfItems(t *testing.T) {
	for name, want := range map[string]string{
		"api": `"api"`, "": `"5/1m"`, ` !~`: `" !~"`, `\`: `"\\"`, `"`: `"\""`, "a\tb": "", "a\x00": "", "\x7f": "", "grün": "", "\xff": "",
	} {
		limit := slidegate.PerMinute(5)
		limit.Name = name
		item, err := NewHeaderItem(limit)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: got %s, want an error", name, item.name)
		case want != "" && (err != nil || item.name != want || item.policy != want+";q=5;w=60"):
			t.Errorf("%q: got %+v, %v; want %s", name, item, err, want)
		}
		if want == "" {
			want = `"5/1m"`
		}
		if got := new(HeaderItems).Append(nil, []slidegate.Limit{limit}); got[0].name != want {
			t.Errorf("%q: got cached %s, want %s", name, got[0].name, want)
		}
	}
}

// A limit that was seen before is not prepared again, and limits beyond the cache still work.
func TestHeaderItemsRemember(t *testing.T) {
	var items HeaderItems
	limits := []slidegate.Limit{slidegate.PerMinute(5), slidegate.PerHour(7)}
	first := items.Append(nil, limits)
	again := items.Append(first[:1:1], limits[1:])
	if len(again) != 2 || again[0] != first[0] || again[1] != first[1] || first[0].policy != `"5/1m";q=5;w=60` {
		t.Errorf("got %+v, then %+v; want the same two items twice, the first with the policy %s", first, again, `"5/1m";q=5;w=60`)
	}
	if got := testing.AllocsPerRun(100, func() { again = items.Append(again[:0], limits) }); got > 0 {
		t.Errorf("got %v allocations for cached limits, want 0", got)
	}
	full := make(map[slidegate.Limit]*HeaderItem, maxItems)
	for i := range int64(maxItems) {
		full[slidegate.PerSecond(i)] = first[0]
	}
	items.known.Store(&full)
	if got := items.Append(nil, limits[1:]); got[0].policy != `"7/1h";q=7;w=3600` || len(*items.known.Load()) != maxItems {
		t.Errorf("got %+v beyond the cache, and %d cached; want the policy %s and %d", got[0], len(*items.known.Load()), `"7/1h";q=7;w=3600`, maxItems)
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
