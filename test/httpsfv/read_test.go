package httpsfv

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/httplimit"
)

// maxHold is the longest time for which a Transport of these tests holds requests back.
const maxHold = 1000 * time.Hour

// libraryHold returns for how long a response with these RateLimit lines asks the client to wait, and because of which limit, as
// the library reads them: the longest time of an item of which nothing remains. Lines that are not a list may be the dictionary
// of draft 07.
func libraryHold(lines []string) (hold time.Duration, limit string) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return holdOfDraft07(lines), ""
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			continue
		}
		remaining, _ := item.Params.Get("r")
		t, _ := item.Params.Get("t")
		seconds, whole := t.(int64)
		if remaining != int64(0) || !whole {
			continue
		}
		name, named := item.Value.(string)
		if token, ok := item.Value.(httpsfv.Token); ok {
			name, named = string(token), true
		}
		if wait := bounded(seconds); named && wait > hold {
			hold, limit = wait, name
		}
	}
	return hold, limit
}

func holdOfDraft07(lines []string) time.Duration {
	dictionary, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return 0
	}
	value := func(key string) any {
		member, _ := dictionary.Get(key)
		item, _ := member.(httpsfv.Item)
		return item.Value
	}
	seconds, whole := value("reset").(int64)
	if !whole || value("remaining") != int64(0) {
		return 0
	}
	return bounded(seconds)
}

func bounded(seconds int64) time.Duration {
	return time.Duration(max(0, min(seconds, int64(maxHold/time.Second)))) * time.Second
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// transportHold returns for how long, and because of which limit, a Transport holds requests back after a response with these
// lines. It runs in a synctest bubble, where no time passes between the response and the next request.
func transportHold(t *testing.T, lines []string) (hold time.Duration, limit string) {
	synctest.Test(t, func(t *testing.T) {
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{"Ratelimit": lines}, Body: http.NoBody, Request: r}, nil
		})
		transport, err := httplimit.NewTransport(next, httplimit.TransportOptions{MaxObey: maxHold})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := http.NewRequest(http.MethodGet, "https://secret.test/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = transport.RoundTrip(r)
			if refused, ok := errors.AsType[*httplimit.RefusedError](err); ok {
				hold, limit = refused.RetryAfter, refused.Limit
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
	return hold, limit
}

var (
	values = []string{
		`"a"`, `""`, `"b \"\\ c"`, "api", "*", "a:/b", "0", "-0", "7", "-7", "999999999999999", "9999999999999999", "0.0", "7.5", "1.2345", "7.", "-", "?1", "?0",
		"?", "?2", "@7", "@-7", "@7.5", "@", ":YWJj:", "::", ":YWJ:", ":YQ==:", ":Y Q:", `%"x"`, `%"%c3%bc\"`, "%x", "é", "\"\xff\"", `"\a"`, `"a`, "(", "()", "( )", `("a" b;r=0)`,
		"(1 2", `("a""b")`, "((a))", `(0);r=0;t=5`,
	}
	keys    = []string{"r", "t", "r", "t", "w", "q", "*", "a.b-c_d*1", "R", "1", "", "remaining", "reset", "limit"}
	between = []string{", ", ",", " ,\t", ", , ", ",,", " ", "\t", ";", "=", ""}
)

// member draws something like a member of a list or of a dictionary.
func member(t *rapid.T, keyed bool) string {
	var b strings.Builder
	if keyed {
		b.WriteString(rapid.SampledFrom([]string{"remaining", "reset", "limit", "x"}).Draw(t, "member"))
		if rapid.IntRange(0, 9).Draw(t, "bare") > 0 {
			b.WriteString("=" + rapid.SampledFrom([]string{"0", "7", "18", rapid.SampledFrom(values).Draw(t, "value")}).Draw(t, "number"))
		}
	} else {
		b.WriteString(rapid.SampledFrom([]string{`"a"`, `"b"`, "api", rapid.SampledFrom(values).Draw(t, "value")}).Draw(t, "name"))
	}
	if rapid.Bool().Draw(t, "usual") && !keyed {
		b.WriteString(";r=0;t=" + rapid.SampledFrom([]string{"5", "9", "18"}).Draw(t, "t"))
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "parameters") {
		b.WriteString(rapid.SampledFrom([]string{";", ";", "; ", " ;"}).Draw(t, "semicolon") + rapid.SampledFrom(keys).Draw(t, "key"))
		if rapid.IntRange(0, 5).Draw(t, "bare") > 0 {
			b.WriteString("=" + rapid.SampledFrom([]string{"0", "7", rapid.SampledFrom(values).Draw(t, "value")}).Draw(t, "of"))
		}
	}
	return b.String()
}

// line draws something like a field, which is usually well formed.
func line(t *rapid.T) string {
	keyed := rapid.IntRange(0, 3).Draw(t, "keyed") == 0
	text := rapid.SampledFrom([]string{"", "", "", "", "", " ", "\t"}).Draw(t, "before")
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		if i > 0 {
			text += rapid.SampledFrom([]string{", ", ", ", ", ", rapid.SampledFrom(between).Draw(t, "other")}).Draw(t, "comma")
		}
		text += member(t, keyed)
	}
	return text + rapid.SampledFrom([]string{"", "", "", "", "", " ", "\t ", ","}).Draw(t, "after")
}

// A Transport reads every response as the library does.
func TestTransportReadsLikeTheLibrary(t *testing.T) {
	held := 0
	rapid.Check(t, func(r *rapid.T) {
		for range 10 {
			lines := []string{line(r)}
			if rapid.Bool().Draw(r, "two lines") {
				lines = append(lines, line(r))
			}
			if differ := compare(t, lines); differ != "" {
				r.Fatal(differ)
			}
			if hold, _ := libraryHold(lines); hold > 0 {
				held++
			}
		}
	})
	if held < 20 {
		t.Errorf("only %d of the responses asked the client to wait, too few to prove anything", held)
	}
}

// compare returns how a Transport and the library differ about these lines, or "".
func compare(t *testing.T, lines []string) string {
	hold, limit := transportHold(t, lines)
	if wantHold, wantLimit := libraryHold(lines); hold != wantHold || limit != wantLimit {
		return fmt.Sprintf("%q: obeyed for %v for the sake of %q, want %v, %q", lines, hold, limit, wantHold, wantLimit)
	}
	return ""
}

func FuzzTransportReads(f *testing.F) {
	for _, value := range values {
		f.Add(value + ";r=0;t=5")
		f.Add(`"a";r=0;t=5;x=` + value + `, b;t=7;r=` + value)
		f.Add(`limit=` + value + `, remaining=0, reset=5`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, `%`) || strings.ContainsAny(text, "\r\n") || len(text) > 64 {
			return // Display Strings are not decoded, net/http rejects line breaks, and long names are cut
		}
		if differ := compare(t, []string{text}); differ != "" {
			t.Error(differ)
		}
	})
}
