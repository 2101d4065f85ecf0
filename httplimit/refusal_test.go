package httplimit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

func TestRefusalWords(t *testing.T) {
	items := []*HeaderItem{testkit.Must(NewHeaderItem(slidegate.Limit{Name: `a"b`, Quota: 1, Window: time.Hour}))(t)}
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
		{own, BodyProblem, `{"type":"https://example.com/slow?a=1&b","title":"Slow <down>, \"please\"","status":429,` +
			`"detail":"Wait 2s, {or} upgrade api & \"a\"b\".","violated-policies":["a\"b"],"retry_after":2}`},
		{own, BodyJSON, `{"error":"Slow <down>, \"please\"","limit":"a\"b","detail":"` + quoted + `","retry_after":2}`},
		{own, BodyText, `Wait 2s, {or} upgrade api & "a"b".`},
		{Refusal{Title: "Slow"}, BodyProblem, `{"type":"` + problemQuota + `","title":"Slow","status":429,` +
			`"detail":"The quota is used up. Try again in 2 seconds.","violated-policies":["a\"b"],"retry_after":2}`},
		{Refusal{Title: "Slow"}, BodyJSON, `{"error":"Slow","limit":"a\"b","retry_after":2}`},
		{Refusal{Title: "Slow"}, BodyText, "The quota is used up. Try again in 2 seconds."},
		{Refusal{Detail: "No."}, BodyProblem, `{"type":"` + problemQuota + `","title":"Too many requests","status":429,` +
			`"detail":"No.","violated-policies":["a\"b"],"retry_after":2}`},
	} {
		words := testkit.Must(test.given.Texts("api"))(t)
		got := strings.TrimSuffix(string(words.AppendRefusal(nil, test.body, items, refused)), "\n")
		if got != test.want {
			t.Errorf("%+v as body %d:\ngot  %s\nwant %s", test.given, test.body, got, test.want)
		}
		if test.body == BodyProblem || test.body == BodyJSON {
			if !json.Valid([]byte(got)) {
				t.Errorf("got %s, want valid JSON", got)
			}
		}
	}
	words := testkit.Must(own.Texts("api"))(t)
	for _, d := range []*slidegate.Decision{{RetryAfter: slidegate.Never}, {Flags: rule.FallbackClosed, RetryAfter: time.Second}} {
		if got, want := words.AppendRefusal(nil, BodyProblem, items, d), BodyProblem.AppendRefusal(nil, items, d); string(got) != string(want) {
			t.Errorf("%+v: got %s, want the default texts: %s", d, got, want)
		}
	}
	if words, err := (Refusal{}).Texts("api"); words != nil || err != nil {
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

// A policy's refusals have its own texts, and those of a policy without any the default texts.
func TestRefusalOfAPolicy(t *testing.T) {
	limit := []slidegate.Limit{{Quota: 1, Window: time.Hour}}
	m, err := New(testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t), Options{Body: BodyText, Policies: []Policy{
		{Name: "own", Match: "/own", Limits: limit, Refusal: Refusal{Detail: "No more of {policy}."}},
		{Name: "usual", Match: "/usual", Limits: limit},
	}})
	if err != nil {
		t.Fatal(err)
	}
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for path, want := range map[string]string{"/own": "No more of own.\n", "/usual": "The quota is used up. Try again in 3600 seconds.\n"} {
		var w *httptest.ResponseRecorder
		for range 2 {
			w = httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		}
		if w.Code != http.StatusTooManyRequests || !strings.HasPrefix(w.Body.String(), want[:10]) {
			t.Errorf("%s: got %d %q, want 429 %q", path, w.Code, w.Body, want)
		}
	}
	_, err = New(testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t), Options{Policies: []Policy{{Name: "p", Refusal: Refusal{Detail: "{x}"}}}})
	if err == nil || !strings.Contains(err.Error(), `httplimit: policy "p": refusal: detail: unknown placeholder {x}`) {
		t.Errorf("got error %v, want one about the placeholder {x}", err)
	}
}
