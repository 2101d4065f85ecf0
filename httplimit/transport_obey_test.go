package httplimit_test

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/httplimit"
)

// newYear is the time of the responses in these tests: as a Unix time it is 1767225600.
var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newBubble is when time begins in a bubble.
var newBubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Responses, and for how many seconds the next request is held. The maximum is an hour.
var obeyCases = []struct {
	name        string
	status      int
	fields      []string
	holdSeconds int
}{
	{"nothing", 429, nil, 0},

	{"seconds", 429, []string{"Retry-After: 12"}, 12},
	{"of a 503", 503, []string{"Retry-After: 12"}, 12},
	{"of a 200", 200, []string{"Retry-After: 12"}, 0},
	{"of a redirect", 302, []string{"Retry-After: 12"}, 0},
	{"zero", 429, []string{"Retry-After: 0"}, 0},
	{"an hour", 429, []string{"Retry-After: 3600"}, 3600},
	{"more than an hour", 429, []string{"Retry-After: 3601"}, 3600},
	{"too large for a duration", 429, []string{"Retry-After: 9223372037"}, 3600},
	{"too large for anything", 429, []string{"Retry-After: " + strings.Repeat("9", 400)}, 3600},
	{"long, but small", 429, []string{"Retry-After: " + strings.Repeat("0", 400) + "8"}, 8},
	{"a fraction, rounded up", 429, []string{"Retry-After: 1.2"}, 2},
	{"a whole number with decimals", 429, []string{"Retry-After: 1.00"}, 1},
	{"spaces", 429, []string{"Retry-After:   3 "}, 3},
	{"negative", 429, []string{"Retry-After: -5"}, 0},
	{"signed", 429, []string{"Retry-After: +5"}, 0},
	{"an exponent", 429, []string{"Retry-After: 5e1"}, 0},
	{"not a number", 429, []string{"Retry-After: NaN"}, 0},
	{"infinite", 429, []string{"Retry-After: Inf"}, 0},
	{"only a point", 429, []string{"Retry-After: ."}, 0},
	{"half a number", 429, []string{"Retry-After: 5."}, 0},
	{"empty", 429, []string{"Retry-After:"}, 0},
	{"a list", 429, []string{"Retry-After: 5, 6"}, 0},
	{"twice", 429, []string{"Retry-After: 5", "Retry-After: 6", "Retry-After: 4"}, 6},
	{"twice, once valid", 429, []string{"Retry-After: soon", "Retry-After: 6"}, 6},
	{"a megabyte", 429, []string{"Retry-After: " + strings.Repeat("0", 1<<20) + "8"}, 0},
	{"a megabyte of lines", 429, append([]string{"Retry-After: 8"}, manyLines("Retry-After: 8", 1<<20)...), 0},

	{"a date", 429, []string{"Retry-After: Thu, 01 Jan 2026 00:00:20 GMT"}, 20},
	{"a date of the old kind", 429, []string{"Retry-After: Thursday, 01-Jan-26 00:00:20 GMT"}, 20},
	{"a date that has passed", 429, []string{"Retry-After: Wed, 31 Dec 2025 23:59:40 GMT"}, 0},
	{"a date long ago", 429, []string{"Retry-After: Mon, 01 Jan 0001 00:00:00 GMT"}, 0},
	{"a date far off", 429, []string{"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"}, 3600},
	{"no date", 429, []string{"Retry-After: Thu, 01 Jan 2026 00:00:99 GMT"}, 0},
	{
		"a date by the server's clock", 429,
		[]string{"Date: Thu, 01 Jan 2026 05:00:00 GMT", "Retry-After: Thu, 01 Jan 2026 05:00:20 GMT"}, 20,
	},
	{"a date, with an invalid Date", 429, []string{"Date: x", "Retry-After: Thu, 01 Jan 2026 00:00:20 GMT"}, 20},
	{"a Date does not change seconds", 429, []string{"Date: Thu, 01 Jan 2026 05:00:00 GMT", "Retry-After: 4"}, 4},

	{"an item", 200, []string{`RateLimit: "api";r=0;t=18`}, 18},
	{"an item of the next text", 200, []string{`RateLimit: "api";a=0;w=18;c=1`}, 18},
	{"something left in the next text", 200, []string{`RateLimit: "api";a=1;w=18`}, 0},
	{"both texts", 200, []string{`RateLimit: "api";r=5;t=9;a=0;w=18`}, 0},
	{"mixed texts", 200, []string{`RateLimit: "api";r=0;w=18`}, 0},
	{"of a refusal by a budget", 402, []string{`Retry-After: 7`}, 7},
	{"of a refusal", 429, []string{`RateLimit: "api";r=0;t=18`}, 18},
	{"something remains", 200, []string{`RateLimit: "api";r=1;t=18`}, 0},
	{"no time", 200, []string{`RateLimit: "api";r=0`}, 0},
	{"nothing about what remains", 200, []string{`RateLimit: "api";t=18`}, 0},
	{"a token", 200, []string{`RateLimit: api;r=0;t=18`}, 18},
	{"a number for a name", 200, []string{`RateLimit: 5;r=0;t=18`}, 0},
	{"an inner list", 200, []string{`RateLimit: ("api");r=0;t=18`}, 0},
	{"other parameters", 200, []string{`RateLimit: "api";pk=:YWJj:;r=0;acme="x";t=18`}, 18},
	{"several, one exhausted", 200, []string{`RateLimit: "a";r=5;t=90, "b";r=0;t=7`}, 7},
	{"several exhausted", 200, []string{`RateLimit: "a";r=0;t=7, "b";r=0;t=9, "c";r=0;t=8`}, 9},
	{"several lines", 200, []string{`RateLimit: "a";r=0;t=7`, `RateLimit: "b";r=0;t=9`}, 9},
	{"one of them is wrong", 200, []string{`RateLimit: "a";r=0;t=7, "b";r=x;t=9`}, 7},
	{"negative time", 200, []string{`RateLimit: "a";r=0;t=-7`}, 0},
	{"so negative that it might overflow", 200, []string{`RateLimit: "a";r=0;t=-9223372037`}, 0}, // times 10^9 is below -2^63
	{"the most negative", 200, []string{`RateLimit: "a";r=0;t=-999999999999999`}, 0},
	{"negative remaining", 200, []string{`RateLimit: "a";r=-1;t=7`}, 0},
	{"the largest time", 200, []string{`RateLimit: "a";r=0;t=999999999999999`}, 3600},
	{"too large a time", 200, []string{`RateLimit: "a";r=0;t=9999999999999999`}, 0},
	{"a decimal time", 200, []string{`RateLimit: "a";r=0;t=7.5`}, 0},
	{"a time in quotes", 200, []string{`RateLimit: "a";r=0;t="7"`}, 0},
	{"malformed", 200, []string{`RateLimit: "a";r=0;t=7,`}, 0},
	{"not ASCII", 200, []string{"RateLimit: \"\xff\";r=0;t=7"}, 0},
	{"a megabyte of items", 200, []string{"RateLimit: " + strings.Repeat(`"a";r=0;t=7, `, 1<<16) + `"a";r=0;t=7`}, 0},
	{"draft 07", 200, []string{"RateLimit: limit=5, remaining=0, reset=18"}, 18},
	{"draft 07, something remains", 200, []string{"RateLimit: limit=5, remaining=1, reset=18"}, 0},
	{"draft 07, no reset", 200, []string{"RateLimit: limit=5, remaining=0"}, 0},
	{"draft 07, a list of resets", 200, []string{"RateLimit: remaining=0, reset=(1 2)"}, 0},
	{"draft 07, negative", 200, []string{"RateLimit: remaining=0, reset=-9223372037"}, 0},

	{"Retry-After wins", 429, []string{`RateLimit: "a";r=0;t=50`, "Retry-After: 5"}, 5},
	{"Retry-After wins with more", 429, []string{`RateLimit: "a";r=0;t=5`, "Retry-After: 50"}, 50},
	{"Retry-After wins with nothing", 503, []string{`RateLimit: "a";r=0;t=5`, "Retry-After: 0"}, 0},
	{"Retry-After wins with the past", 429, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 5", "Retry-After: Wed, 31 Dec 2025 23:59:40 GMT"}, 0},
	{"Retry-After is not valid", 429, []string{`RateLimit: "a";r=0;t=50`, "Retry-After: -1"}, 50},
	{"Retry-After does not count", 200, []string{`RateLimit: "a";r=0;t=50`, "Retry-After: 5"}, 50},

	{"three fields", 200, []string{"RateLimit-Limit: 5", "RateLimit-Remaining: 0", "RateLimit-Reset: 18"}, 18},
	{"three, something remains", 429, []string{"RateLimit-Remaining: 1", "RateLimit-Reset: 18"}, 0},
	{"three, no reset", 429, []string{"RateLimit-Remaining: 0"}, 0},
	{"three, nothing about what remains", 429, []string{"RateLimit-Reset: 18"}, 0},
	{"three, a reset by the clock", 200, []string{"RateLimit-Remaining: 0", "RateLimit-Reset: 1767225630"}, 30},
	{"three, of two kinds", 200, []string{"RateLimit-Remaining: 0", "X-RateLimit-Reset: 18"}, 0},

	{"X, seconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 18"}, 18},
	{"X, spelt apart", 429, []string{"X-Rate-Limit-Remaining: 0", "X-Rate-Limit-Reset: 1767225618"}, 18},
	{"seconds of a 403", 403, []string{"Retry-After: 30", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225660"}, 30},
	{"X, by the clock", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225630"}, 30},
	{"X, by the clock in milliseconds", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225630000"}, 30},
	{"X, by the server's clock", 403, []string{"Date: Thu, 01 Jan 2026 00:00:10 GMT", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225630"}, 20},
	{"X, passed", 403, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1767225599"}, 0},
	{"X, the last of the seconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 999999999"}, 3600},
	{"X, the first Unix time", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1000000000"}, 0},
	{"X, the last in seconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 999999999999"}, 3600},
	{"X, the first in milliseconds", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1000000000000"}, 0},
	{"X, too large", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 99999999999999999999999"}, 3600},
	{"X, negative", 200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: -18"}, 0},
	{"X, negative remaining", 200, []string{"X-RateLimit-Remaining: -1", "X-RateLimit-Reset: 18"}, 0},
	{"X, with a point", 200, []string{"X-RateLimit-Remaining: 0.0", "X-RateLimit-Reset: 17.5"}, 18},
	{"X, less than one remains", 200, []string{"X-RateLimit-Remaining: 0.9", "X-RateLimit-Reset: 18"}, 18},
	{"X, more than one remains", 200, []string{"X-RateLimit-Remaining: 1.9", "X-RateLimit-Reset: 18"}, 0},
	{"X, twice", 200, []string{"X-RateLimit-Remaining: 7", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 18", "X-RateLimit-Reset: 8"}, 18},

	{"all kinds, the longest counts", 200, []string{
		`RateLimit: "a";r=0;t=5`, "RateLimit-Remaining: 0", "RateLimit-Reset: 9", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 7",
	}, 9},
	{"the newest is the longest", 200, []string{`RateLimit: "a";r=0;t=11`, "RateLimit-Remaining: 0", "RateLimit-Reset: 9"}, 11},
	{"only the oldest is well-formed", 200, []string{`RateLimit: ?`, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 7"}, 7},

	{"from a cache", 429, []string{"Age: 3", "Retry-After: 12", `RateLimit: "a";r=0;t=5`}, 0},
	{"from a cache, just now", 200, []string{"Age: 0", `RateLimit: "a";r=0;t=5`}, 0},
	{"from a cache that does not know", 200, []string{"Age:", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 7"}, 0},
}

func manyLines(line string, n int) []string {
	lines := make([]string, n/len(line))
	for i := range lines {
		lines[i] = line
	}
	return lines
}

// The next request is held for exactly as long as the response asks: it waits for that long, or is refused with that time.
func TestTransportObeys(t *testing.T) {
	for _, test := range obeyCases {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(newYear))
				hold := time.Duration(test.holdSeconds) * time.Second
				next := newOrigin(respondInTurn(responseWith(test.status, test.fields...)))
				waits := newTransport(t, next, httplimit.TransportOptions{Wait: true})
				mustSend(t, waits, "https://secret.test/", 0)
				mustSend(t, waits, "https://secret.test/", hold)
				if len(next.sent) != 2 || next.sent[1] != hold {
					t.Errorf("got requests at %v, want the second at %v", next.sent, hold)
				}
			})
		})
	}
}

// A refusal contains the time, and the server's name for the limit, if it is not too long.
func TestTransportRefusesForServer(t *testing.T) {
	long := strings.Repeat("n", 65)
	for _, test := range []struct{ field, limit string }{
		{"Retry-After: 30", ""},
		{`RateLimit: "day";r=0;t=30, "hour";r=0;t=5`, "day"},
		{"Retry-After: 30|RateLimit: \"hour\";r=3;t=9, \"day\";r=0;t=30", "day"},
		{`RateLimit: day;r=0;t=30`, "day"},
		{`RateLimit: "` + long[1:] + `";r=0;t=30`, long[1:]},
		{`RateLimit: "` + long + `";r=0;t=30`, long[1:]},
	} {
		synctest.Test(t, func(t *testing.T) {
			next := newOrigin(respondInTurn(responseWith(429, strings.Split(test.field, "|")...)))
			transport := newTransport(t, next, httplimit.TransportOptions{})
			mustSend(t, transport, "https://secret.test/", 0)
			time.Sleep(10 * time.Second)
			mustRefuse(t, t.Context(), transport, httplimit.RefusedError{RetryAfter: 20 * time.Second, Limit: test.limit, Server: true})
			time.Sleep(20*time.Second - 1)
			mustRefuse(t, t.Context(), transport, httplimit.RefusedError{RetryAfter: 1, Limit: test.limit, Server: true})
			time.Sleep(time.Nanosecond)
			mustSend(t, transport, "https://secret.test/", 0)
		})
	}
}

// Responses to concurrent requests arrive in any order: they extend a block, and never shorten it. Each counts for at most
// MaxObey.
func TestTransportBlockIsNotShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := []string{"Retry-After: 7", "Retry-After: 2", "No: thing", "Retry-After: 99"}
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			second := int(r.URL.Path[1] - '0')
			time.Sleep(time.Duration(second) * time.Second)
			return responseWith(429, answers[second-1]), nil
		})
		transport := newTransport(t, next, httplimit.TransportOptions{MaxObey: 15 * time.Second})
		for i := range answers {
			go func() { _, _ = send(t.Context(), transport, fmt.Sprintf("https://secret.test/%d", i+1)) }()
		}
		time.Sleep(500 * time.Millisecond)
		for _, end := range []int{8, 8, 8, 19} { // what is known after 1s, 2s, 3s and 4s
			time.Sleep(time.Second)
			until := newBubble.Add(time.Duration(end) * time.Second)
			mustRefuse(t, t.Context(), transport, httplimit.RefusedError{RetryAfter: time.Until(until), Server: true})
		}
	})
}

// Whatever a server sends, nothing panics and no key is blocked for longer than MaxObey, and responses from a cache block no
// key.
func FuzzTransportObeys(f *testing.F) {
	for _, test := range obeyCases {
		if text := strings.Join(test.fields, "\n"); len(text) < 1000 {
			f.Add(test.status, text)
		}
	}
	const most = 90 * time.Second
	f.Fuzz(func(t *testing.T, status int, fields string) {
		response := responseWith(status, strings.Split(fields, "\n")...)
		before := fmt.Sprint(response.Header)
		transport := newTransport(t, newOrigin(respondInTurn(response)), httplimit.TransportOptions{MaxObey: most})
		if _, err := send(t.Context(), transport, "https://secret.test/"); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(response.Header) != before {
			t.Errorf("got header %v of the response, want %s", response.Header, before)
		}
		_, err := send(t.Context(), transport, "https://secret.test/")
		if err == nil {
			return
		}
		var refused *httplimit.RefusedError
		ok := errors.As(err, &refused)
		if !ok || refused.RetryAfter <= 0 || refused.RetryAfter > most || len(refused.Limit) > 64 || len(err.Error()) > 400 {
			t.Errorf("got %v (%T), want a RefusedError for more than 0 and at most %v, with a limit of at most 64 bytes and a text of at most 400",
				err, err, most)
		}
		if _, cached := response.Header["Age"]; cached {
			t.Errorf("got %v after a response from a cache, want no block", err)
		}
		if value := response.Header["Retry-After"]; len(value) == 1 && (status == 429 || status == 503) {
			if n, ok := new(big.Int).SetString(value[0], 10); ok && n.Cmp(big.NewInt(90)) < 0 && n.Sign() >= 0 && value[0][0] != '+' {
				if seconds := time.Duration(n.Int64()) * time.Second; refused.RetryAfter > seconds {
					t.Errorf("got a block of %v, want at most the requested %v", refused.RetryAfter, seconds)
				}
			}
		}
	})
}
