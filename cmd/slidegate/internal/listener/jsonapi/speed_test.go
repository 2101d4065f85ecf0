package jsonapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// discardResponse is a reusable response.
type discardResponse struct {
	header http.Header
	status int
}

func (w *discardResponse) Header() http.Header         { return w.header }
func (w *discardResponse) WriteHeader(status int)      { w.status = status }
func (w *discardResponse) Write(b []byte) (int, error) { return len(b), nil }

// repeatedRequest is a request that can be served repeatedly.
type repeatedRequest struct {
	body     strings.Reader
	text     string
	request  *http.Request
	response discardResponse
	handler  http.Handler
}

func (r *repeatedRequest) Close() error               { return nil }
func (r *repeatedRequest) Read(b []byte) (int, error) { return r.body.Read(b) }

func newRepeatedRequest(t testing.TB, handler http.Handler, text string) *repeatedRequest {
	t.Helper()
	r := &repeatedRequest{text: text, handler: handler, response: discardResponse{header: http.Header{}}}
	var err error
	r.request, err = http.NewRequest(http.MethodPost, "http://localhost/v1/allow", nil)
	must(t, err)
	r.request.Header["Content-Type"] = jsonType
	r.request.ContentLength = int64(len(text))
	r.request.Body = r
	return r
}

func (r *repeatedRequest) serve() {
	clear(r.response.header)
	r.response.status = 200
	r.body.Reset(r.text)
	r.handler.ServeHTTP(&r.response, r.request)
}

func batchOf(n int) string {
	var reqs []string
	for i := range n {
		reqs = append(reqs, fmt.Sprintf(`{"policy":"open","key":"user-%d","cost":1}`, i))
	}
	return `{"requests":[` + strings.Join(reqs, ",") + `]}`
}

// One request allocates its text and the two RateLimit headers, and nothing more; a batch of 100 allocates one text for all
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
		r := newRepeatedRequest(t, s.api.Handler(), c.body)
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
			r := newRepeatedRequest(b, s.api.Handler(), c.body)
			b.ReportAllocs()
			for b.Loop() {
				r.serve()
			}
		})
	}
	b.Run("read one", func(b *testing.B) {
		c := &call{}
		for b.Loop() {
			*c = call{scanner: scanner{text: `{"policy":"open","key":"user-12345678","cost":1}`}, into: &c.one}
			c.readAllow()
		}
	})
}
