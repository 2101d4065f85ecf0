package httplimit

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/slidegate/slidegate"
	"pgregory.net/rapid"
)

// At half past noon 30 of 100 are used, in an hour's window that starts at noon.
func TestDialects(t *testing.T) {
	limit := slidegate.PerHour(100)
	limit.Name = "api"
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
				t.Errorf("dialect %d: %s is %q, not %q", test.dialect, name, got, want)
			}
		}
	}
}

// Several limits are all told about, those of names that need quoting too.
func TestIETFWithSeveralLimits(t *testing.T) {
	first, second := slidegate.PerMinute(2), slidegate.PerHour(1000)
	first.Name = `a "quoted" \ name`
	second.Window = 1500 * time.Millisecond // no whole number of seconds: w is left out
	p := newPlay(t, Options{}, nil, first, second)
	w := p.from("192.0.2.1")
	policies := parseList(t, w.Header()["Ratelimit-Policy"])
	limits := parseList(t, w.Header()["Ratelimit"])
	for i, want := range []struct {
		name string
		q, r int64
		w    any
	}{{first.Name, 2, 1, int64(60)}, {"1000/1.5s", 1000, 999, nil}} {
		policy, limit := policies[i].(httpsfv.Item), limits[i].(httpsfv.Item)
		q, _ := policy.Params.Get("q")
		window, _ := policy.Params.Get("w")
		remaining, _ := limit.Params.Get("r")
		if policy.Value != want.name || limit.Value != want.name || q != want.q || remaining != want.r || window != want.w {
			t.Errorf("item %d: %v %v %v; %v %v; want %+v", i, policy.Value, q, window, limit.Value, remaining, want)
		}
	}
}

func parseList(t *testing.T, lines []string) httpsfv.List {
	t.Helper()
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	return list
}

// However a decision turns out, the fields can be read by a parser of structured fields and say what was decided.
func TestIETFCanBeRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := slidegate.Decision{
			Allowed: rapid.Bool().Draw(t, "allowed"), Remaining: rapid.OneOf(rapid.Just[int64](0), rapid.Int64Range(0, 1<<53-1)).Draw(t, "remaining"),
			RetryAfter: time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "retry")),
			ResetAfter: time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "reset")),
		}
		if rapid.Bool().Draw(t, "never") {
			d.RetryAfter = slidegate.Never
		}
		name := rapid.StringMatching(`[ -~]{0,30}`).Draw(t, "name")
		one, err := tell(name, slidegate.Limit{Quota: 1<<53 - 1, Window: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		list, err := httpsfv.UnmarshalList([]string{rateLimit(new(values), []told{one}, &d)})
		if err != nil {
			t.Fatal(err)
		}
		item := list[0].(httpsfv.Item)
		remaining, _ := item.Params.Get("r")
		if item.Value != name || remaining != min(d.Remaining, 999_999_999_999_999) {
			t.Fatalf("%v, r=%v", item.Value, remaining)
		}
		wait := d.ResetAfter
		if !d.Allowed {
			wait = d.RetryAfter
		} else if d.Remaining == 0 {
			wait = slidegate.Never // nothing is said of when some of it comes back
		}
		seconds, told := item.Params.Get("t")
		if told == (wait == slidegate.Never) {
			t.Fatalf("t is %v for a wait of %v", seconds, wait)
		}
		if told && (time.Duration(seconds.(int64))*time.Second < wait || time.Duration(seconds.(int64)-1)*time.Second >= wait && wait > 0) {
			t.Fatalf("t is %v for a wait of %v", seconds, wait)
		}
	})
}

func TestBodies(t *testing.T) {
	limit := slidegate.PerMinute(1)
	limit.Name = `the "api"`
	for body, want := range map[Body]struct{ contentType, text string }{
		BodyProblem: {"application/problem+json", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
			`"detail":"The quota is used up. Try again in 120 seconds.","violated-policies":["the \"api\""],"retry_after":120}` + "\n"},
		BodyJSON: {"application/json", `{"error":"rate limited","limit":"the \"api\"","retry_after":120}` + "\n"},
		BodyText: {"text/plain; charset=utf-8", "The quota is used up. Try again in 120 seconds.\n"},
		BodyNone: {"", ""},
	} {
		p := newPlay(t, Options{Body: body}, nil, limit)
		p.from("192.0.2.1")
		w := p.from("192.0.2.1")
		if w.Code != 429 || w.Body.String() != want.text || w.Header().Get("Content-Type") != want.contentType {
			t.Errorf("body %d: %d %q\n%s", body, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") != "120" {
			t.Errorf("body %d: headers %v", body, w.Header())
		}
		if body <= BodyJSON && !json.Valid(w.Body.Bytes()) {
			t.Errorf("not JSON: %s", w.Body)
		}
	}
}
