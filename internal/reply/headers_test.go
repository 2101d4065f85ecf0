package reply

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

// noon is a time of the store.
const noon rule.Micros = 1_767_614_400_000_000

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
			for dialect, want := range map[Dialect]int64{X: int64(noon/second) + test.unix, XDelta: test.from, Draft03: test.from} {
				h := http.Header{}
				dialect.Write(h, []*Item{{quota: "1"}}, &d, !d.Allowed)
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
	for dialect, want := range map[Dialect]string{X: strconv.FormatInt(int64(noon)/1e6+5, 10), XDelta: "5", Draft03: "5"} {
		h := http.Header{}
		dialect.Write(h, []*Item{{quota: "10"}}, &d, !d.Allowed)
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
		api := []*Item{{name: `"api"`}}
		None.Write(h, api, d, !d.Allowed)
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
		if got := string(Text.AppendRefusal(nil, api, d)); got != sentence+"\n" {
			t.Errorf("%v: got text %q, want %q", wait, got, sentence+"\n")
		}
		for _, body := range []Body{Problem, JSON} {
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

// A time of centuries counts as never, and does not overflow to a negative number.
func TestLongAnswers(t *testing.T) {
	for wait, want := range map[rule.Micros]string{
		math.MaxInt64: `"x";r=0`, math.MaxInt64/1000 + 1: `"x";r=0`, 1<<61 + 1<<40: `"x";r=0`, math.MaxInt64 / 1000: `"x";r=0;t=9223372037`, 1: `"x";r=0;t=1`,
	} {
		d := slidegate.Decision{Answers: []rule.Answer{{RetryAfter: wait}}}
		h := http.Header{}
		IETF.Write(h, []*Item{{name: `"x"`}}, &d, !d.Allowed)
		if got := h.Get("RateLimit"); got != want {
			t.Errorf("%d: got RateLimit %q, want %q", wait, got, want)
		}
	}
}

// An undecided request is not the client's fault, and the body contains a time only if it is known.
func TestBodiesOfUndecided(t *testing.T) {
	for body, want := range map[Body][2]string{
		Problem: {`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Service unavailable","status":503,` +
			`"detail":"The rate limit could not be checked."`, "}\n"},
		JSON:   {`{"error":"rate limit unavailable"`, "}\n"},
		Text:   {"The rate limit could not be checked.\n"},
		NoBody: {},
	} {
		for retry, seconds := range map[time.Duration]string{0: "", slidegate.Never: "", 1500 * time.Millisecond: "2"} {
			d := &slidegate.Decision{Flags: rule.FallbackClosed, RetryAfter: retry}
			text := want[0]
			if seconds != "" && body <= JSON {
				text += `,"retry_after":` + seconds
			}
			text += want[1]
			if got := string(body.AppendRefusal(nil, nil, d)); got != text {
				t.Errorf("body %d, %v: got %s\nwant %s", body, retry, got, text)
			}
			h := http.Header{}
			IETF.Write(h, nil, d, !d.Allowed)
			if got := h.Get("Retry-After"); got != seconds || len(h) > 1 || Status(d) != 503 {
				t.Errorf("%v: got %v, status %d; want Retry-After %q and 503", retry, h, Status(d), seconds)
			}
		}
	}
}

// Only printable ASCII is valid in a header.
func TestNamesOfItems(t *testing.T) {
	for name, want := range map[string]string{
		"api": `"api"`, "": `"5/1m"`, ` !~`: `" !~"`, `\`: `"\\"`, `"`: `"\""`, "a\tb": "", strings.Repeat("n", 5000): "", "a\x00": "", "\x7f": "", "grün": "", "\xff": "",
	} {
		limit := slidegate.PerMinute(5)
		limit.Name = name
		item, err := NewItem(limit)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q: got %s, want an error", name, item.name)
		case want != "" && (err != nil || item.name != want || item.policy != want+";q=5;w=60"):
			t.Errorf("%q: got %+v, %v; want %s", name, item, err, want)
		}
		if want == "" {
			want = `"5/1m"`
		}
		if got := new(Items).Append(nil, []slidegate.Limit{limit}); got[0].name != want {
			t.Errorf("%q: got cached %s, want %s", name, got[0].name, want)
		}
	}
}

// A limit that was seen before is not prepared again, and limits beyond the cache still work.
func TestHeaderItemsRemember(t *testing.T) {
	var items Items
	limits := []slidegate.Limit{slidegate.PerMinute(5), slidegate.PerHour(7)}
	first := items.Append(nil, limits)
	again := items.Append(first[:1:1], limits[1:])
	if len(again) != 2 || again[0] != first[0] || again[1] != first[1] || first[0].policy != `"5/1m";q=5;w=60` {
		t.Errorf("got %+v, then %+v; want the same two items twice, the first with the policy %s", first, again, `"5/1m";q=5;w=60`)
	}
	if got := testing.AllocsPerRun(100, func() { again = items.Append(again[:0], limits) }); got > 0 {
		t.Errorf("got %v allocations for cached limits, want 0", got)
	}
	full := make(map[slidegate.Limit]*Item, maxItems)
	for i := range int64(maxItems) {
		full[slidegate.PerSecond(i)] = first[0]
	}
	items.known.Store(&full)
	if got := items.Append(nil, limits[1:]); got[0].policy != `"7/1h";q=7;w=3600` || len(*items.known.Load()) != maxItems {
		t.Errorf("got %+v beyond the cache, and %d cached; want the policy %s and %d", got[0], len(*items.known.Load()), `"7/1h";q=7;w=3600`, maxItems)
	}
}
