package httplimit_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/httplimit"
)

// A transport sends again what may be sent twice, when the server says, and with the same body.
func TestTransportRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		header  string
		body    io.Reader
		status  int
		wait    string
		retries int
		sent    []time.Duration
		want    int
	}{
		{"idempotent", "GET", "", nil, 429, "10", 2, []time.Duration{0, 10 * time.Second}, 200},
		{"503", "PUT", "", strings.NewReader("text"), 503, "10", 2, []time.Duration{0, 10 * time.Second}, 200},
		{"a key", "POST", "Idempotency-Key", strings.NewReader("text"), 429, "10", 1, []time.Duration{0, 10 * time.Second}, 200},
		{"not idempotent", "POST", "", strings.NewReader("text"), 429, "10", 2, []time.Duration{0}, 429},
		{"a body that cannot be read again", "PUT", "", io.LimitReader(strings.NewReader("text"), 4), 429, "10", 2, []time.Duration{0}, 429},
		{"another status", "GET", "", nil, 500, "10", 2, []time.Duration{0}, 500},
		{"no time", "GET", "", nil, 503, "", 2, []time.Duration{0}, 503},
		{"too late", "GET", "", nil, 429, "100", 2, []time.Duration{0}, 429},
		{"not wanted", "GET", "", nil, 429, "10", 0, []time.Duration{0}, 429},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			var sent []time.Duration
			next := roundTrip(func(r *http.Request) (*http.Response, error) {
				if sent = append(sent, time.Since(start)); r.Body != nil {
					if text, err := io.ReadAll(r.Body); err != nil || string(text) != "text" {
						t.Errorf("%s: got the body %q, %v", c.name, text, err)
					}
				}
				if len(sent) > 1 {
					return responseWith(200), nil
				}
				response := responseWith(c.status)
				if c.wait != "" {
					response.Header.Set("Retry-After", c.wait)
				}
				response.Body = io.NopCloser(strings.NewReader("refused"))
				return response, nil
			})
			transport := newTransport(t, next, httplimit.TransportOptions{Wait: true, MaxWait: time.Minute, Retries: c.retries})
			r, err := http.NewRequestWithContext(t.Context(), c.method, "https://secret.test/", c.body)
			if err != nil {
				t.Fatal(err)
			}
			if c.header != "" {
				r.Header.Set(c.header, "1")
			}
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if response.StatusCode != c.want || !slices.Equal(sent, c.sent) {
				t.Errorf("%s: got %d after %v, want %d after %v", c.name, response.StatusCode, sent, c.want, c.sent)
			}
			if text, err := io.ReadAll(response.Body); c.want != 200 && (err != nil || string(text) != "refused") {
				t.Errorf("%s: got the body %q, %v", c.name, text, err)
			}
		})
	}
}

// With a limiter, waiting requests are sent in the order in which they came, one by one after a server's block.
func TestTransportSendsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		start := time.Now()
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, r.URL.Path)
			if r.URL.Path == "/first" {
				return responseWith(429, "Retry-After: 10"), nil
			}
			if at := time.Since(start); at < 10*time.Second {
				t.Errorf("%s was sent after %v", r.URL.Path, at)
			}
			return responseWith(200), nil
		})
		limiter := transportLimiter(t, "2/1s token-bucket burst=1")
		transport := newTransport(t, next, httplimit.TransportOptions{Wait: true, Limiter: limiter})
		mustSend(t, transport, "https://secret.test/first", 0)
		var all sync.WaitGroup
		want := []string{"/first"}
		for i := range 5 {
			path := "/" + string(rune('a'+i))
			want = append(want, path)
			all.Go(func() {
				if _, err := send(t.Context(), transport, "https://secret.test"+path); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if took := time.Since(start); !slices.Equal(order, want) || took != 12*time.Second {
			t.Errorf("sent %v in %v, want %v in 12s", order, took, want)
		}
	})
}
