package httplimit

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
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

// A time is rounded up once, and never to a second before the exact time.
func TestTimesAreRoundedUpOnce(t *testing.T) {
	const second = rule.Micros(1e6)
	for _, test := range []struct {
		at         rule.Micros // after noon
		wait       time.Duration
		unix, from int64 // after noon in Unix time, and from then
	}{
		{0, 0, 0, 0}, {0, time.Microsecond, 1, 1}, {0, time.Second, 1, 1}, {0, time.Second + time.Microsecond, 2, 2},
		{second / 2, time.Second / 2, 1, 1}, {second / 2, time.Second/2 + time.Microsecond, 2, 1}, {second - 1, 2 * time.Microsecond, 2, 1},
		{second / 2, time.Second, 2, 1}, {1, 0, 1, 0},
	} {
		for _, allowed := range []bool{true, false} {
			d := slidegate.Decision{Allowed: allowed, At: noon + test.at, ResetAfter: test.wait}
			if !allowed {
				d.RetryAfter, d.ResetAfter = test.wait, test.wait+time.Hour
			}
			for dialect, want := range map[Headers]int64{HeadersX: int64(noon/second) + test.unix, HeadersXDelta: test.from, HeadersDraft03: test.from} {
				h := http.Header{}
				dialect.Write(h, []*HeaderItem{{quota: "1"}}, &d)
				if got := h.Get("X-RateLimit-Reset") + h.Get("RateLimit-Reset"); got != strconv.FormatInt(want, 10) {
					t.Errorf("dialect %d, allowed %v, %+v: got reset %s, want %d", dialect, allowed, test, got, want)
				}
			}
		}
	}
}

// If waiting does not help there is no Retry-After, and the reset is when all units are free.
func TestNeverInTheOlderDialects(t *testing.T) {
	d := slidegate.Decision{RetryAfter: slidegate.Never, ResetAfter: 5 * time.Second, At: noon, Remaining: 7}
	for dialect, want := range map[Headers]string{HeadersX: strconv.FormatInt(int64(noon)/1e6+5, 10), HeadersXDelta: "5", HeadersDraft03: "5"} {
		h := http.Header{}
		dialect.Write(h, []*HeaderItem{{quota: "10"}}, &d)
		if got := h.Get("X-RateLimit-Reset") + h.Get("RateLimit-Reset"); got != want {
			t.Errorf("dialect %d: got reset %s, want %s", dialect, got, want)
		}
		if got := h.Get("X-RateLimit-Remaining") + h.Get("RateLimit-Remaining"); got != "7" {
			t.Errorf("dialect %d: got %s remaining, want 7", dialect, got)
		}
	}
}

// Retry-After is a whole number of seconds, at least one, and left out if waiting does not help. The body agrees.
func TestRetryAfterAndSentence(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		0: "1", time.Microsecond: "1", time.Second: "1", time.Second + time.Microsecond: "2", 299 * time.Second: "299",
		300 * time.Second: "300", 300*time.Second + 1000: "301", 24 * time.Hour: "86400", slidegate.Never - 1: "9223372037", slidegate.Never: "",
	} {
		h := http.Header{}
		d := &slidegate.Decision{RetryAfter: wait}
		api := []*HeaderItem{{name: `"api"`}}
		HeadersNone.Write(h, api, d)
		reported := retrySeconds(d)
		if got := h.Get("Retry-After"); got != want || (reported == -1) != (want == "") {
			t.Errorf("%v: got Retry-After %q and retrySeconds %d, want %q, and -1 only without Retry-After", wait, got, reported, want)
		}
		sentence := "The quota is used up. Try again in " + want + " seconds."
		switch want {
		case "1":
			sentence = "The quota is used up. Try again in 1 second."
		case "":
			sentence = "The request is larger than the quota, and will never be admitted."
		}
		if got := string(BodyText.AppendRefusal(nil, api, d)); got != sentence+"\n" {
			t.Errorf("%v: got text %q, want %q", wait, got, sentence+"\n")
		}
		for _, body := range []Body{BodyProblem, BodyJSON} {
			var document map[string]any
			if err := json.Unmarshal(body.AppendRefusal(nil, api, d), &document); err != nil {
				t.Fatal(err)
			}
			seconds, there := document["retry_after"]
			if there != (want != "") || there && seconds != float64(reported) {
				t.Errorf("%v: got body %v, want retry_after as in Retry-After, %q", wait, document, want)
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

// A time of centuries counts as never, and does not overflow to a negative number.
func TestLongAnswers(t *testing.T) {
	for wait, want := range map[rule.Micros]string{
		math.MaxInt64: `"x";r=0`, math.MaxInt64/1000 + 1: `"x";r=0`, 1<<61 + 1<<40: `"x";r=0`, math.MaxInt64 / 1000: `"x";r=0;t=9223372037`, 1: `"x";r=0;t=1`,
	} {
		d := slidegate.Decision{Answers: []rule.Answer{{RetryAfter: wait}}}
		h := http.Header{}
		HeadersIETF.Write(h, []*HeaderItem{{name: `"x"`}}, &d)
		if got := h.Get("RateLimit"); got != want {
			t.Errorf("%d: got RateLimit %q, want %q", wait, got, want)
		}
	}
}

// An undecided request is not the client's fault, and the body contains a time only if it is known.
func TestBodiesOfUndecided(t *testing.T) {
	for body, want := range map[Body][2]string{
		BodyProblem: {`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service unavailable","status":503,` +
			`"detail":"The rate limit could not be checked."`, "}\n"},
		BodyJSON: {`{"error":"rate limit unavailable"`, "}\n"},
		BodyText: {"The rate limit could not be checked.\n"},
		BodyNone: {},
	} {
		for retry, seconds := range map[time.Duration]string{0: "", slidegate.Never: "", 1500 * time.Millisecond: "2"} {
			d := &slidegate.Decision{Flags: rule.FallbackClosed, RetryAfter: retry}
			text := want[0]
			if seconds != "" && body <= BodyJSON {
				text += `,"retry_after":` + seconds
			}
			text += want[1]
			if got := string(body.AppendRefusal(nil, nil, d)); got != text {
				t.Errorf("body %d, %v: got %s\nwant %s", body, retry, got, text)
			}
			h := http.Header{}
			HeadersIETF.Write(h, nil, d)
			if got := h.Get("Retry-After"); got != seconds || len(h) > 1 || RefusalStatus(d) != 503 {
				t.Errorf("%v: got %v, status %d; want Retry-After %q and 503", retry, h, RefusalStatus(d), seconds)
			}
		}
	}
}
