package main

import (
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/httprate"
)

// httpRate is github.com/go-chi/httprate without its headers: the same steps as RateLimiter.OnLimit, including one mutex around
// them, made of the library's public Status and IncrementBy.
type httpRate struct {
	noClose
	mu      sync.Mutex
	limiter *httprate.RateLimiter
	counter httprate.LimitCounter
	quota   int
	window  time.Duration
}

func openHTTPRate(s spec) (limiter, error) {
	counter := httprate.NewLocalLimitCounter(s.window)
	return &httpRate{
		limiter: httprate.NewRateLimiter(int(s.quota), s.window, httprate.WithLimitCounter(counter)),
		counter: counter, quota: int(s.quota), window: s.window,
	}, nil
}

func (h *httpRate) Allow(key string) bool {
	current := time.Now().UTC().Truncate(h.window)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, used, err := h.limiter.Status(key)
	if err != nil || int(math.Round(used))+1 > h.quota {
		return false
	}
	return h.counter.IncrementBy(key, current, 1) == nil
}

// httpRateHeaders is the whole of RateLimiter.OnLimit, which also writes the response's headers. It is a separate
// row, because the others only decide.
type httpRateHeaders struct {
	noClose
	limiter *httprate.RateLimiter
	request *http.Request
	writers sync.Pool // of *headerWriter
}

func openHTTPRateHeaders(s spec) (limiter, error) {
	request, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	h := &httpRateHeaders{limiter: httprate.NewRateLimiter(int(s.quota), s.window), request: request}
	h.writers.New = func() any { return &headerWriter{header: http.Header{}} }
	return h, nil
}

func (h *httpRateHeaders) Allow(key string) bool {
	w := h.writers.Get().(*headerWriter)
	defer h.writers.Put(w)
	return !h.limiter.OnLimit(w, h.request, key)
}

// headerWriter is a response that keeps its headers and nothing else. It is reused, so httprate does not pay for the map that a
// server makes for each response.
type headerWriter struct{ header http.Header }

func (w *headerWriter) Header() http.Header            { return w.header }
func (w *headerWriter) Write(body []byte) (int, error) { return len(body), nil }
func (w *headerWriter) WriteHeader(int)                {}
