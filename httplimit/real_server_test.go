package httplimit

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"testing"
	"testing/iotest"

	"github.com/slidegate/slidegate"
)

// onTheWire runs a test over HTTP/1.1 and over HTTP/2, each with its own server. get requests a path from it.
func onTheWire(t *testing.T, handler func(t *testing.T) http.Handler, test func(t *testing.T, get func(method, path string) (*http.Response, string))) {
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(handler(t))
			server.EnableHTTP2 = major == 2
			server.StartTLS()
			defer server.Close()
			test(t, func(method, path string) (*http.Response, string) {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil || response.ProtoMajor != major {
					t.Fatalf("got %s and error %v, want HTTP/%d and none", response.Proto, err, major)
				}
				return response, string(body)
			})
		})
	}
}

// A quota of two over a connection: responses report what is left, and then the refusal, with all its fields.
func TestQuotaOverRealConnections(t *testing.T) {
	handler := func(t *testing.T) http.Handler {
		return crowd(t, Options{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, slidegate.PerMinute(2))
	}
	onTheWire(t, handler, func(t *testing.T, get func(string, string) (*http.Response, string)) {
		const problem = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too many requests","status":429,` +
			`"detail":"The quota is used up. Try again in 60 seconds.","violated-policies":["2/1m"],"retry_after":60}` + "\n"
		for i, want := range []struct {
			method             string
			status             int
			body, limit, retry string
		}{
			{"GET", 200, "hello", `"2/1m";r=1;t=60`, ""},
			{"HEAD", 200, "", `"2/1m";r=0;t=60`, ""},
			{"GET", 429, problem, `"2/1m";r=0;t=60`, "60"},
			{"HEAD", 429, "", `"2/1m";r=0;t=60`, "60"},
		} {
			response, body := get(want.method, "/")
			h := response.Header
			if response.StatusCode != want.status || body != want.body || h.Get("RateLimit") != want.limit || h.Get("Retry-After") != want.retry {
				t.Errorf("request %d: got %d with %v\n%s\nwant %+v", i+1, response.StatusCode, h, body, want)
			}
			if h.Get("RateLimit-Policy") != `"2/1m";q=2;w=60` {
				t.Errorf("request %d: got RateLimit-Policy %q, want %q", i+1, h.Get("RateLimit-Policy"), `"2/1m";q=2;w=60`)
			}
			if want.status == 429 && (h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store") {
				t.Errorf("request %d: got refusal %v, want application/problem+json and no-store", i+1, h)
			}
		}
	})
}

// The client and CostAfter get exactly the response that the handler wrote.
func TestWireThroughRecorder(t *testing.T) {
	var reported Response
	after := func(_ *http.Request, response Response) int64 { reported = response; return 0 }
	handler := func(t *testing.T) http.Handler {
		return crowd(t, Options{Policies: []Policy{{CostAfter: after}}}, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/nothing":
			case "/hints":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusTeapot)
			case "/twice":
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, "12345")
			case "/flush":
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				_, _ = io.WriteString(w, "1")
			case "/failing":
				if _, err := io.Copy(w, iotest.ErrReader(errors.New("no source"))); err != nil {
					w.WriteHeader(http.StatusBadGateway)
				}
			case "/copy":
				_, _ = io.Copy(w, io.LimitReader(zeros{}, 100_000))
			}
		}, slidegate.PerMinute(100))
	}
	onTheWire(t, handler, func(t *testing.T, get func(string, string) (*http.Response, string)) {
		for path, want := range map[string]Response{
			"/nothing": {Status: 200, Bytes: 0, Cost: 1}, "/hints": {Status: 418, Bytes: 0, Cost: 1}, "/twice": {Status: 202, Bytes: 5, Cost: 1}, "/flush": {Status: 200, Bytes: 1, Cost: 1},
			"/failing": {Status: 502, Bytes: 0, Cost: 1}, "/copy": {Status: 200, Bytes: 100_000, Cost: 1},
		} {
			response, body := get("GET", path)
			if response.StatusCode != want.Status || len(body) != int(want.Bytes) {
				t.Errorf("%s: client: got %d and %d bytes, want %d and %d", path, response.StatusCode, len(body), want.Status, want.Bytes)
			}
			if reported != want {
				t.Errorf("%s: CostAfter: got %+v, want %+v", path, reported, want)
			}
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Early hints reach the client through the recorder.
func TestWireEarlyHints(t *testing.T) {
	server := httptest.NewServer(crowd(t, Options{Policies: []Policy{{CostAfter: CostFromHandler()}}}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
	}, slidegate.PerMinute(1)))
	defer server.Close()
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		hints = code
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if hints != http.StatusEarlyHints || response.StatusCode != 200 {
		t.Errorf("got status %d, then %d; want 103, then 200", hints, response.StatusCode)
	}
}
