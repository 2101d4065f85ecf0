package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// origin stands for all servers: it returns the responses of its script, and records when it was called.
type origin struct {
	answer func(r *http.Request) *http.Response

	mu   sync.Mutex
	sent []time.Duration // since it was made
	made time.Time
}

func newOrigin(answer func(r *http.Request) *http.Response) *origin {
	return &origin{answer: answer, made: time.Now()}
}

func (o *origin) RoundTrip(r *http.Request) (*http.Response, error) {
	o.mu.Lock()
	o.sent = append(o.sent, time.Since(o.made))
	o.mu.Unlock()
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return o.answer(r), nil
}

// responseWith returns a response with lines such as "Retry-After: 5".
func responseWith(status int, lines ...string) *http.Response {
	response := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		response.Header.Add(name, strings.TrimPrefix(value, " "))
	}
	return response
}

// respondInTurn returns the given responses in order, and then 200 forever.
func respondInTurn(responses ...*http.Response) func(*http.Request) *http.Response {
	var mu sync.Mutex
	return func(*http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		if len(responses) == 0 {
			return responseWith(200)
		}
		first := responses[0]
		responses = responses[1:]
		return first
	}
}

func newTransport(t *testing.T, next http.RoundTripper, opts httplimit.TransportOptions) *httplimit.Transport {
	t.Helper()
	return testkit.Must(httplimit.NewTransport(next, opts))(t)
}

func transportLimiter(t *testing.T, limits ...string) *slidegate.Limiter {
	t.Helper()
	store := testkit.Must(memstore.New(memstore.Options{}))(t)
	var parsed []slidegate.Limit
	for _, limit := range limits {
		parsed = append(parsed, slidegate.MustParseLimit(limit))
	}
	return testkit.Must(slidegate.New(store, parsed...))(t)
}

// send sends a request and returns its outcome and how long that took.
func send(ctx context.Context, transport http.RoundTripper, address string) (time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		panic(err)
	}
	began := time.Now()
	_, err = transport.RoundTrip(request)
	return time.Since(began), err
}

func mustSend(t *testing.T, transport http.RoundTripper, address string, after time.Duration) {
	t.Helper()
	if took, err := send(t.Context(), transport, address); err != nil || took != after {
		t.Errorf("got %v after %v, want it sent after %v", err, took, after)
	}
}

// mustRefuse sends a request that must be refused immediately, and returns the refusal.
func mustRefuse(t *testing.T, ctx context.Context, transport http.RoundTripper, want httplimit.RefusedError) error {
	t.Helper()
	took, err := send(ctx, transport, "https://secret.test/")
	var refused *httplimit.RefusedError
	ok := errors.As(err, &refused)
	if !ok || took != 0 {
		t.Fatalf("got %v after %v, want a *RefusedError immediately", err, took)
	}
	if refused.RetryAfter != want.RetryAfter || refused.Limit != want.Limit || refused.Server != want.Server {
		t.Errorf("got %+v, want %+v", *refused, want)
	}
	if !strings.HasPrefix(err.Error(), "httplimit: not sent: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got text %q, want prefix %q and no key", err, "httplimit: not sent: ")
	}
	return err
}

func TestNewTransportRejects(t *testing.T) {
	limiter := transportLimiter(t, "5/1m")
	none, err := limiter.With()
	if err != nil {
		t.Fatal(err)
	}
	for want, opts := range map[string]httplimit.TransportOptions{
		"limiter: has no limits":  {Limiter: none},
		"cost: has no effect":     {Cost: func(*http.Request) int64 { return 1 }},
		"max wait: must not":      {Wait: true, MaxWait: -1},
		"max wait: has no effect": {MaxWait: 1},
		"max obey: must not":      {MaxObey: -1},
		"max keys: must not ":     {MaxKeys: -1},
	} {
		transport, err := httplimit.NewTransport(nil, opts)
		if err == nil || transport != nil || !strings.HasPrefix(err.Error(), "httplimit: "+want) {
			t.Errorf("got %v, want prefix %q", err, want)
		}
	}
	if _, err := httplimit.NewTransport(nil, httplimit.TransportOptions{}); err != nil {
		t.Errorf("NewTransport with the zero value returned %v, want no error", err)
	}
}

// The response of a server applies to its key, and to no other.
func TestTransportKeys(t *testing.T) {
	byUser := func(r *http.Request) (string, error) { return r.Header.Get("User") + r.URL.Query().Get("user"), nil }
	for _, test := range []struct {
		name          string
		key           httplimit.Key
		first, second string
		same          bool
	}{
		{"another path", httplimit.Key{}, "https://a.test/x", "https://a.test/y?q", true},
		{"another host", httplimit.Key{}, "https://a.test/", "https://b.test/", false},
		{"another scheme", httplimit.Key{}, "https://a.test/", "http://a.test/", false},
		{"another port", httplimit.Key{}, "https://a.test/", "https://a.test:8443/", false},
		{"the usual port", httplimit.Key{}, "https://a.test/", "https://a.test:443/", true},
		{"the usual port of http", httplimit.Key{}, "http://a.test:80/", "http://a.test/", true},
		{"the usual port of the other scheme", httplimit.Key{}, "http://a.test:443/", "http://a.test/", false},
		{"capitals", httplimit.Key{}, "https://A.Test/", "https://a.test/", true},
		{"own key, the same", httplimit.KeyFunc(byUser), "https://a.test/?user=1", "https://b.test/?user=1", true},
		{"own key, another", httplimit.KeyFunc(byUser), "https://a.test/?user=1", "https://a.test/?user=2", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := newOrigin(respondInTurn(responseWith(429, "Retry-After: 5")))
			transport := newTransport(t, next, httplimit.TransportOptions{Key: test.key})
			if _, err := send(t.Context(), transport, test.first); err != nil {
				t.Fatal(err)
			}
			_, err := send(t.Context(), transport, test.second)
			var target *httplimit.RefusedError
			if refused := errors.As(err, &target); refused != test.same {
				t.Errorf("got %v, want refused: %v", err, test.same)
			}
		})
	}
}

// By default up to 1024 keys are blocked at a time; beyond that, the block that ends soonest is dropped.
func TestTransportMaxKeys(t *testing.T) {
	next := newOrigin(func(r *http.Request) *http.Response {
		return responseWith(429, "Retry-After: "+r.URL.Query().Get("hold"))
	})
	for given, most := range map[int]int{0: 1024, 3: 3} {
		transport := newTransport(t, next, httplimit.TransportOptions{MaxKeys: given})
		for i := range most + 2 {
			hold := 1000 + (i+1)%most // key most-1 ends first, then key 0
			if _, err := send(t.Context(), transport, fmt.Sprintf("https://%d.test/?hold=%d", i, hold)); err != nil {
				t.Fatal(err)
			}
		}
		sent := len(next.sent)
		blocked := 0
		for i := range most + 2 {
			if _, err := send(t.Context(), transport, fmt.Sprintf("https://%d.test/?hold=0", i)); err != nil {
				blocked++
			}
		}
		if again := len(next.sent) - sent; blocked != most || again != 2 {
			t.Errorf("got %d keys blocked and %d not, want %d and 2", blocked, again, most)
		}
		if _, err := send(t.Context(), transport, fmt.Sprintf("https://%d.test/", most-1)); err != nil {
			t.Errorf("the block that ends soonest: got error %v, want it dropped", err)
		}
	}
}

// An invalid request is left to the next transport to report.
func TestTransportWrongRequest(t *testing.T) {
	for _, request := range []*http.Request{{}, {URL: &url.URL{}}} {
		if _, err := newTransport(t, nil, httplimit.TransportOptions{}).RoundTrip(request); err == nil {
			t.Errorf("%+v was sent, want an error", request)
		}
	}
}

// closing is a body that counts how often it is closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// A body is always closed: by this transport if the request is not sent, by the next one if it is. Either way the request stays
// unchanged.
func TestTransportBody(t *testing.T) {
	next := newOrigin(respondInTurn(responseWith(429, "Retry-After: 5")))
	transport := newTransport(t, next, httplimit.TransportOptions{})
	for _, what := range []string{"sent", "refused"} {
		body := &closing{Reader: strings.NewReader("text")}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://secret.test/path?query", body)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Name", "value")
		before := *request
		before.URL, before.Header = new(url.URL), request.Header.Clone()
		*before.URL = *request.URL
		_, err = transport.RoundTrip(request)
		if (err != nil) != (what == "refused") || body.closed != 1 {
			t.Errorf("%s: got error %v and the body closed %d times, want an error exactly if refused, and once", what, err, body.closed)
		}
		if !reflect.DeepEqual(before, *request) {
			t.Errorf("%s: got request %+v, want %+v", what, *request, before)
		}
	}
}

// brokenStore never decides, or refuses without a time.
type brokenStore struct {
	store.Store
	err   error
	while func() // called during the decision
}

func (s brokenStore) Apply(_ context.Context, batch []store.Request) error {
	s.while()
	for _, request := range batch {
		clear(request.Answers)
	}
	return s.err
}

func TestTransportBrokenStore(t *testing.T) {
	memory := testkit.Must(memstore.New(memstore.Options{}))(t)
	down := errors.New("down")
	cost := int64(1)
	opts := httplimit.TransportOptions{Wait: true, Cost: func(*http.Request) int64 { return cost }}
	next := newOrigin(respondInTurn())
	opts.Limiter = testkit.Must(slidegate.New(brokenStore{memory, down, func() {}}, slidegate.PerMinute(1)))(t)
	open := newTransport(t, next, opts)
	opts.FailClosed = true
	closed := newTransport(t, next, opts)
	if _, err := send(t.Context(), open, "https://secret.test/"); err != nil || len(next.sent) != 1 {
		t.Errorf("while the store is down: got error %v and %d sent, want none and 1", err, len(next.sent))
	}
	if _, err := send(t.Context(), closed, "https://secret.test/"); !errors.Is(err, down) || !strings.HasPrefix(err.Error(), "httplimit: ") {
		t.Errorf("got %v, want the store's error", err)
	}
	cost = 0
	if _, err := send(t.Context(), closed, "https://secret.test/"); err != nil || len(next.sent) != 2 {
		t.Errorf("a request that costs nothing: got error %v and %d sent, want none and 2", err, len(next.sent))
	}
	cost = 1
	gone, leave := context.WithCancel(t.Context())
	opts.FailClosed = false
	opts.Limiter = testkit.Must(slidegate.New(brokenStore{memory, down, leave}, slidegate.PerMinute(1)))(t)
	if _, err := send(gone, newTransport(t, next, opts), "https://secret.test/"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled: the caller is gone", err)
	}
	cost = -1
	if _, err := send(t.Context(), open, "https://secret.test/"); !errors.Is(err, slidegate.ErrCost) {
		t.Errorf("got %v, want ErrCost", err)
	}
	cost = 1
	opts.Limiter = testkit.Must(slidegate.New(brokenStore{memory, nil, func() {}}, slidegate.PerMinute(1)))(t)
	synctest.Test(t, func(t *testing.T) {
		mustRefuse(t, t.Context(), newTransport(t, next, opts), httplimit.RefusedError{Limit: slidegate.PerMinute(1).String()})
	})
	if len(next.sent) != 2 {
		t.Errorf("got %d sent, want 2", len(next.sent))
	}
}

func TestRefusedErrorText(t *testing.T) {
	for want, refused := range map[string]*httplimit.RefusedError{
		`httplimit: not sent: our own limit "api" admits it in 1.5s`:                 {RetryAfter: 1500 * time.Millisecond, Limit: "api"},
		`httplimit: not sent: the server's limit admits it in 1m0s`:                  {RetryAfter: time.Minute, Server: true},
		`httplimit: not sent: the server's limit "day" admits it in 1m0s`:            {RetryAfter: time.Minute, Server: true, Limit: "day"},
		`httplimit: not sent: the cost exceeds what our own limit "api" ever admits`: {RetryAfter: slidegate.Never, Limit: "api"},
		`httplimit: not sent: our own limit "api" refuses it, for an unknown time`:   {Limit: "api"},
	} {
		if refused.Error() != want || refused.Timeout() || errors.Unwrap(refused) != nil {
			t.Errorf("got %q, want %q", refused, want)
		}
	}
}

// idle counts how often its connections are closed.
type idle struct {
	http.RoundTripper
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestTransportCloseIdleConnections(t *testing.T) {
	next := &idle{}
	(&http.Client{Transport: newTransport(t, next, httplimit.TransportOptions{})}).CloseIdleConnections()
	if next.closed != 1 {
		t.Errorf("closed %d times, want 1", next.closed)
	}
	newTransport(t, newOrigin(respondInTurn()), httplimit.TransportOptions{}).CloseIdleConnections() // it has none
}

// End to end, through http.Client and a real server, in real time.
func TestTransportRealServer(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	client := &http.Client{Transport: newTransport(t, nil, httplimit.TransportOptions{Wait: true}), Timeout: 5 * time.Second}
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("got status %d, want the server's own 429", response.StatusCode)
	}
	_, err = client.Post(server.URL, "text/plain", strings.NewReader("body"))
	var refused *httplimit.RefusedError
	ok := errors.As(err, &refused)
	if !ok || !refused.Server || refused.RetryAfter > 7*time.Second || refused.RetryAfter < 2*time.Second {
		t.Errorf("got %v, want a *RefusedError of at most 7s", err)
	}
	var outer *url.Error
	if ok := errors.As(err, &outer); !ok || !outer.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a *url.Error that is a timeout", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("got %d requests to the server, want 1", n)
	}
}
