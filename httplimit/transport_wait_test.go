package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
)

// The transport's own limit delays requests for exactly as long as the limiter requires, and charges the cost of each.
func TestTransportOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := newOrigin(respondInTurn())
		limiter := transportLimiter(t, "5/1m sliding-log name=mine")
		cost := func(r *http.Request) int64 { return int64(len(r.URL.Path)) - 1 }
		patient := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter, Cost: cost, Wait: true})
		prompt := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter, Cost: cost})
		mustSend(t, patient, "https://secret.test/12", 0)
		time.Sleep(10 * time.Second)
		mustSend(t, patient, "https://secret.test/123", 0)
		mustSend(t, patient, "https://secret.test/", 0) // costs nothing
		time.Sleep(7 * time.Second)
		took, err := send(t.Context(), prompt, "https://secret.test/1")
		var refused *httplimit.RefusedError
		ok := errors.As(err, &refused)
		if !ok || took != 0 || refused.RetryAfter != 43*time.Second || refused.Limit != "mine" || refused.Server {
			t.Errorf("got %v after %v, want a refusal by the own limit for 43s", err, took)
		}
		mustSend(t, patient, "https://other.test/12345", 0)
		mustSend(t, patient, "https://secret.test/1", 43*time.Second)    // at 60s, when the first 2 have expired
		mustSend(t, patient, "https://secret.test/1234", 10*time.Second) // at 70s
		took, err = send(t.Context(), patient, "https://secret.test/123456")
		ok = errors.As(err, &refused)
		if !ok || took != 0 || !errors.Is(err, slidegate.ErrNever) || refused.RetryAfter != slidegate.Never {
			t.Errorf("got %v after %v, want ErrNever immediately", err, took)
		}
		if len(next.sent) != 6 {
			t.Errorf("got %d sent, want 6", len(next.sent))
		}
	})
}

// Where refusals are charged, a waiting request does not delay itself.
func TestTransportWaitsWhereRefusalsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := transportLimiter(t, "1/1m sliding-log count-refused")
		next := newOrigin(respondInTurn())
		patient := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter, Wait: true})
		prompt := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter})
		mustSend(t, patient, "https://secret.test/", 0)
		time.Sleep(20 * time.Second)
		mustSend(t, patient, "https://secret.test/", 40*time.Second)
		time.Sleep(20 * time.Second)
		if _, err := send(t.Context(), prompt, "https://secret.test/"); err == nil { // it is charged too
			t.Error("the request was sent, want a refusal")
		}
		mustSend(t, patient, "https://secret.test/", time.Minute)
	})
}

func TestTransportMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			most time.Duration
			sent bool
		}{{10 * time.Second, true}, {10*time.Second - 1, false}} {
			next := newOrigin(respondInTurn(responseWith(429, "Retry-After: 10")))
			transport := newTransport(t, next, httplimit.TransportOptions{Wait: true, MaxWait: test.most})
			mustSend(t, transport, "https://secret.test/", 0)
			if test.sent {
				mustSend(t, transport, "https://secret.test/", 10*time.Second)
				continue
			}
			err := mustRefuse(t, t.Context(), transport, httplimit.RefusedError{RetryAfter: 10 * time.Second, Server: true})
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v without a deadline, want another error than context.DeadlineExceeded", err)
			}
		}
	})
}

// MaxWait applies to all waits of a request together. A last wait that would exceed it does not begin.
func TestTransportMaxWaitInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := transportLimiter(t, "1/12s sliding-log name=mine")
		next := newOrigin(respondInTurn(responseWith(429, "Retry-After: 6")))
		transport := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter, Wait: true, MaxWait: 10 * time.Second})
		mustSend(t, transport, "https://secret.test/", 0)
		took, err := send(t.Context(), transport, "https://secret.test/")
		var refused *httplimit.RefusedError
		ok := errors.As(err, &refused)
		if !ok || took != 6*time.Second || refused.RetryAfter != 6*time.Second || refused.Limit != "mine" || refused.Server {
			t.Errorf("got %v after %v, want a refusal by the own limit after 6s, for 6s more", err, took)
		}
		mustSend(t, transport, "https://secret.test/", 6*time.Second) // nothing was charged
	})
}

// A wait that would outlast the deadline does not begin; a cancelled wait ends.
func TestTransportContext(t *testing.T) {
	type opts = httplimit.TransportOptions
	for name, choose := range map[string]func(t *testing.T) opts{
		"server's block": func(*testing.T) opts { return opts{Wait: true} },
		"own limit": func(t *testing.T) opts {
			return opts{Wait: true, Limiter: transportLimiter(t, "1/10s sliding-log name=mine")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := choose(t)
				want := httplimit.RefusedError{RetryAfter: 10 * time.Second, Limit: "mine"}
				next := newOrigin(respondInTurn())
				if opts.Limiter == nil {
					want = httplimit.RefusedError{RetryAfter: 10 * time.Second, Server: true}
					next = newOrigin(respondInTurn(responseWith(503, "Retry-After: 10")))
				}
				transport := newTransport(t, next, opts)
				mustSend(t, transport, "https://secret.test/", 0)

				late, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := mustRefuse(t, late, transport, want)
				if timeout, ok := err.(interface{ Timeout() bool }); !errors.Is(err, context.DeadlineExceeded) || !ok || !timeout.Timeout() {
					t.Errorf("got %v, want context.DeadlineExceeded with a true Timeout", err)
				}

				cause := errors.New("gone home")
				gone, leave := context.WithCancelCause(t.Context())
				time.AfterFunc(3*time.Second, func() { leave(cause) })
				if took, err := send(gone, transport, "https://secret.test/"); !errors.Is(err, cause) || took != 3*time.Second {
					t.Errorf("got %v after %v, want the cause after 3s", err, took)
				}

				enough, cancel := context.WithTimeout(t.Context(), 7*time.Second+1)
				defer cancel()
				if took, err := send(enough, transport, "https://secret.test/"); err != nil || took != 7*time.Second {
					t.Errorf("got %v after %v, want it sent after 7s", err, took)
				}
				if len(next.sent) != 2 {
					t.Errorf("got %d sent, want 2", len(next.sent))
				}
			})
		})
	}
}

// A caller whose context has ended takes nothing.
func TestTransportEndedContext(t *testing.T) {
	limiter := transportLimiter(t, "1/1m sliding-log")
	next := newOrigin(respondInTurn())
	transport := newTransport(t, next, httplimit.TransportOptions{Limiter: limiter, Wait: true})
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := send(ended, transport, "https://secret.test/"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	d, err := limiter.Peek(t.Context(), "https://secret.test", 1)
	if err != nil || d.Remaining != 1 || len(next.sent) != 0 {
		t.Errorf("got %d sent, %d remaining, error %v; want 0, 1 and none", len(next.sent), d.Remaining, err)
	}
}
