package reply

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
)

func TestRefusalWords(t *testing.T) {
	items := []*Item{testkit.Must(NewItem(slidegate.Limit{Name: `a"b`, Quota: 1, Window: time.Hour}))(t)}
	refused := &slidegate.Decision{RetryAfter: 1500 * time.Millisecond}
	own := Refusal{
		Type: "https://example.com/slow?a=1&b", Title: `Slow <down>, "please"`,
		Detail: `Wait {retry_after}s, {{or}} upgrade {policy} & "{limit}".`,
	}
	const quoted = `Wait 2s, {or} upgrade api & \"a\"b\".`
	for _, test := range []struct {
		given Refusal
		body  Body
		want  string
	}{
		{own, Problem, `{"type":"https://example.com/slow?a=1&b","title":"Slow <down>, \"please\"","status":429,` +
			`"detail":"Wait 2s, {or} upgrade api & \"a\"b\".","violated-policies":["a\"b"],"retry_after":2}`},
		{own, JSON, `{"error":"Slow <down>, \"please\"","limit":"a\"b","detail":"` + quoted + `","retry_after":2}`},
		{own, Text, `Wait 2s, {or} upgrade api & "a"b".`},
		{Refusal{Title: "Slow"}, Problem, `{"type":"` + problemQuota + `","title":"Slow","status":429,` +
			`"detail":"The quota is used up. Try again in 2 seconds.","violated-policies":["a\"b"],"retry_after":2}`},
		{Refusal{Title: "Slow"}, JSON, `{"error":"Slow","limit":"a\"b","retry_after":2}`},
		{Refusal{Title: "Slow"}, Text, "The quota is used up. Try again in 2 seconds."},
		{Refusal{Detail: "No."}, Problem, `{"type":"` + problemQuota + `","title":"Too many requests","status":429,` +
			`"detail":"No.","violated-policies":["a\"b"],"retry_after":2}`},
		{Refusal{Status: 402}, Problem, `{"type":"` + problemQuota + `","title":"Payment required","status":402,` +
			`"detail":"The quota is used up. Try again in 2 seconds.","violated-policies":["a\"b"],"retry_after":2}`},
		{Refusal{Status: 403}, JSON, `{"error":"rate limited","limit":"a\"b","retry_after":2}`},
	} {
		words := testkit.Must(test.given.Prepare("api"))(t)
		if got, want := words.Status(len(items), refused), cmp.Or(test.given.Status, 429); got != want {
			t.Errorf("%+v: got the status %d, want %d", test.given, got, want)
		}
		got := strings.TrimSuffix(string(words.AppendRefusal(nil, test.body, items, refused)), "\n")
		if got != test.want {
			t.Errorf("%+v as body %d:\ngot  %s\nwant %s", test.given, test.body, got, test.want)
		}
		if test.body == Problem || test.body == JSON {
			if !json.Valid([]byte(got)) {
				t.Errorf("got %s, want valid JSON", got)
			}
		}
	}
	words := testkit.Must(own.Prepare("api"))(t)
	for _, d := range []*slidegate.Decision{{RetryAfter: slidegate.Never}, {Flags: rule.FallbackClosed, RetryAfter: time.Second}} {
		if got, want := words.AppendRefusal(nil, Problem, items, d), Problem.AppendRefusal(nil, items, d); string(got) != string(want) {
			t.Errorf("%+v: got %s, want the default texts: %s", d, got, want)
		}
		if got, want := testkit.Must(Refusal{Status: 402}.Prepare("api"))(t).Status(len(items), d), Status(d); got != want {
			t.Errorf("%+v: got the status %d, want %d", d, got, want)
		}
	}
	if words, err := (Refusal{}).Prepare("api"); words != nil || err != nil {
		t.Errorf("nothing given: got %v, %v, want none", words, err)
	}
}

func TestRefusalMistakes(t *testing.T) {
	for _, test := range []struct {
		given Refusal
		want  string
	}{
		{Refusal{Type: "rate-limited"}, `type: "rate-limited" is not an absolute URI, such as https://example.com/problems/rate-limited`},
		{Refusal{Type: "https:///x"}, `type: "https:///x" is not an absolute URI, such as https://example.com/problems/rate-limited`},
		{Refusal{Type: "https://example.com/a b"}, `type: "https://example.com/a b" is not an absolute URI, such as https://example.com/problems/rate-limited`},
		{Refusal{Type: "https://example.com/" + strings.Repeat("a", 256)}, "type: has 276 bytes; use at most 256"},
		{Refusal{Title: "two\nlines"}, "title: contains a control character, such as a line break; write one line"},
		{Refusal{Title: strings.Repeat("a", 129)}, "title: has 129 bytes; use at most 128"},
		{Refusal{Title: "\xff"}, "title: is not UTF-8"},
		{Refusal{Detail: "wait {seconds}"}, "detail: unknown placeholder {seconds}; want {retry_after}, {limit} or {policy}, or {{ for a literal brace"},
		{Refusal{Detail: "wait {retry_after"}, "detail: unpaired brace; write {{ or }} for a literal one"},
		{Refusal{Detail: "wait }"}, "detail: unpaired brace; write {{ or }} for a literal one"},
		{Refusal{Detail: strings.Repeat("a", 1025)}, "detail: has 1025 bytes; use at most 1024"},
	} {
		if err := test.given.Check(); err == nil || err.Error() != test.want {
			t.Errorf("%+v: got %v, want %s", test.given, err, test.want)
		}
	}
	if err := (Refusal{Type: "urn:example:limited"}).Check(); err != nil {
		t.Errorf("a URN is rejected: %v", err)
	}
}
