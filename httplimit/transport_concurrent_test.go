package httplimit_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/httplimit"
)

// crowd sends n requests concurrently, and returns when all have been sent.
func crowd(t *testing.T, transport http.RoundTripper, n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			if _, err := send(t.Context(), transport, "https://secret.test/"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Requests that waited for a server are all sent at the same time when its block ends, unless a limiter spreads them.
func TestTransportCrowdAfterBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := newOrigin(respondInTurn(responseWith(429, "Retry-After: 30")))
		transport := newTransport(t, alone, httplimit.TransportOptions{Wait: true})
		crowd(t, transport, 1)
		crowd(t, transport, 12)
		if want := append([]time.Duration{0}, slices.Repeat([]time.Duration{30 * time.Second}, 12)...); !slices.Equal(alone.sent, want) {
			t.Errorf("got requests at %v, want %v", alone.sent, want)
		}
		spread := newOrigin(respondInTurn(responseWith(429, "Retry-After: 30")))
		limiter := transportLimiter(t, "5/1s sliding-log")
		transport = newTransport(t, spread, httplimit.TransportOptions{Wait: true, Limiter: limiter})
		crowd(t, transport, 1)
		crowd(t, transport, 12)
		want := []time.Duration{0}
		for i := range 12 { // five of them at 30s, five at 31s, two at 32s
			want = append(want, time.Duration(30+i/5)*time.Second)
		}
		if !slices.Equal(spread.sent, want) {
			t.Errorf("got requests at %v, want %v", spread.sent, want)
		}
	})
}

// A block that begins while a request waits for the transport's own limit delays it too, and it takes no units before it can
// use them.
func TestTransportBlockWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := newOrigin(respondInTurn(responseWith(429, "Retry-After: 20")))
		slow := roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if response.StatusCode == 429 {
				time.Sleep(5 * time.Second) // so the block is from 5s to 25s
			}
			return response, err
		})
		limiter := transportLimiter(t, "1/10s sliding-log")
		transport := newTransport(t, slow, httplimit.TransportOptions{Wait: true, Limiter: limiter})
		first := make(chan struct{})
		go func() {
			defer close(first)
			mustSend(t, transport, "https://secret.test/", 5*time.Second)
		}()
		synctest.Wait()
		mustSend(t, transport, "https://secret.test/", 25*time.Second) // the transport's own limit would have admitted it at 10s
		mustSend(t, transport, "https://secret.test/", 10*time.Second)
		<-first
		if want := []time.Duration{0, 25 * time.Second, 35 * time.Second}; !slices.Equal(next.sent, want) {
			t.Errorf("got requests at %v, want %v", next.sent, want)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Many concurrent requests, over more keys than are remembered, some refused by servers: the race detector is satisfied, no key
// exceeds its limit in any second, and the bubble sees that no goroutine is left.
func TestTransportConcurrent(t *testing.T) {
	const keys, each, quota = 8, 40, 5
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string][]time.Time{}
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			sent[r.URL.Host] = append(sent[r.URL.Host], time.Now())
			if len(sent[r.URL.Host])%7 == 0 {
				return responseWith(503, "Retry-After: 2"), nil
			}
			return responseWith(200, `RateLimit: "x";r=3;t=9`), nil
		})
		transport := newTransport(t, next, httplimit.TransportOptions{
			Wait: true, MaxKeys: keys / 2, Limiter: transportLimiter(t, fmt.Sprintf("%d/1s sliding-log", quota)),
		})
		var all sync.WaitGroup
		for i := range keys * each {
			all.Go(func() {
				if _, err := send(t.Context(), transport, fmt.Sprintf("https://%d.test/", i%keys)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for host, times := range sent {
			if len(times) != each {
				t.Errorf("%s: got %d sent, want %d", host, len(times), each)
			}
			for i := quota; i < len(times); i++ {
				if within := times[i].Sub(times[i-quota]); within < time.Second {
					t.Errorf("%s: got %d requests within %v, want at most %d within a second", host, quota+1, within, quota)
				}
			}
		}
	})
}
