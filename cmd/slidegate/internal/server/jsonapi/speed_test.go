package jsonapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// written is a reusable response.
type written struct {
	header http.Header
	status int
}

func (w *written) Header() http.Header         { return w.header }
func (w *written) WriteHeader(status int)      { w.status = status }
func (w *written) Write(b []byte) (int, error) { return len(b), nil }

// repeated is a request that can be served repeatedly.
type repeated struct {
	body    strings.Reader
	text    string
	request *http.Request
	answer  written
	handler http.Handler
}

func (r *repeated) Close() error               { return nil }
func (r *repeated) Read(b []byte) (int, error) { return r.body.Read(b) }

func newRepeated(t testing.TB, handler http.Handler, text string) *repeated {
	t.Helper()
	r := &repeated{text: text, handler: handler, answer: written{header: http.Header{}}}
	var err error
	r.request, err = http.NewRequest(http.MethodPost, "http://localhost/v1/allow", nil)
	must(t, err)
	r.request.Header["Content-Type"] = jsonType
	r.request.ContentLength = int64(len(text))
	r.request.Body = r
	return r
}

func (r *repeated) serve() {
	clear(r.answer.header)
	r.answer.status = 200
	r.body.Reset(r.text)
	r.handler.ServeHTTP(&r.answer, r.request)
}

func batchOf(n int) string {
	var asks []string
	for i := range n {
		asks = append(asks, fmt.Sprintf(`{"policy":"open","key":"user-%d","cost":1}`, i))
	}
	return `{"requests":[` + strings.Join(asks, ",") + `]}`
}

// One ask allocates its text and the two RateLimit headers, and nothing more; a batch of 100 allocates one text for all
// its keys.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := newService(t, Options{})
	for _, c := range []struct {
		body string
		max  float64
	}{
		{`{"policy":"login","key":"ann","cost":1}`, 3},
		{batchOf(100), 3}, // and a Content-Length
	} {
		r := newRepeated(t, s.api.Handler(), c.body)
		r.serve()
		if got := testing.AllocsPerRun(200, r.serve); got > c.max {
			t.Errorf("%.40s...: got %v allocations, want at most %v", c.body, got, c.max)
		}
	}
}

func BenchmarkAllow(b *testing.B) {
	s := newService(b, Options{})
	for _, c := range []struct{ name, body string }{
		{"one", `{"policy":"open","key":"user-12345678","cost":1}`}, {"batch of 100", batchOf(100)},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := newRepeated(b, s.api.Handler(), c.body)
			b.ReportAllocs()
			for b.Loop() {
				r.serve()
			}
		})
	}
	b.Run("read one", func(b *testing.B) {
		c := &call{}
		for b.Loop() {
			*c = call{scan: scanner{text: `{"policy":"open","key":"user-12345678","cost":1}`}}
			c.readAllow()
		}
	})
}
