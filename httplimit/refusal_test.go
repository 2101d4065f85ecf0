package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// A policy's refusals have its own texts, and those of a policy without any the default texts.
func TestRefusalOfAPolicy(t *testing.T) {
	limit := []slidegate.Limit{{Quota: 1, Window: time.Hour}}
	m, err := New(testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t), Options{Body: BodyText, Policies: []Policy{
		{Name: "own", Match: "/own", Limits: limit, Refusal: Refusal{Detail: "No more of {policy}.", Status: http.StatusPaymentRequired}},
		{Name: "usual", Match: "/usual", Limits: limit},
	}})
	if err != nil {
		t.Fatal(err)
	}
	handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	statuses := map[string]int{"/own": 402, "/usual": 429}
	for path, want := range map[string]string{"/own": "No more of own.\n", "/usual": "The quota is used up. Try again in 3600 seconds.\n"} {
		var w *httptest.ResponseRecorder
		for range 2 {
			w = httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		}
		if w.Code != statuses[path] || w.Header().Get("Retry-After") == "" || !strings.HasPrefix(w.Body.String(), want[:10]) {
			t.Errorf("%s: got %d, %v, %q, want %d %q", path, w.Code, w.Header(), w.Body, statuses[path], want)
		}
	}
	_, err = New(testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t), Options{Policies: []Policy{{Name: "p", Refusal: Refusal{Detail: "{x}"}}}})
	if err == nil || !strings.Contains(err.Error(), `httplimit: policy "p": refusal: detail: unknown placeholder {x}`) {
		t.Errorf("got error %v, want one about the placeholder {x}", err)
	}
}
