package httplimit_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

// distant is a store with round trips of 10ms, which decides before it knows whether the caller is still there.
type distant struct{ store.Store }

func (d distant) Traits() store.Traits {
	traits := d.Store.Traits()
	traits.RoundTrips = 1
	return traits
}

func (d distant) Apply(ctx context.Context, batch []store.Request) error {
	testkit.Delay(5 * time.Millisecond)
	if err := d.Store.Apply(context.WithoutCancel(ctx), batch); err != nil {
		return err
	}
	select {
	case <-time.After(5 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What was taken for clients that leave the line while the store answers is for those who stay, in the middleware and in the transport.
func TestWhatLeavingClientsTookIsForOthers(t *testing.T) {
	const quota = 100
	limit := slidegate.MustParseLimit("100/10m sliding-log")
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Err() == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	for name, make := range map[string]func(l *slidegate.Limiter) func(*http.Request) (admitted bool){
		"middleware": func(l *slidegate.Limiter) func(*http.Request) bool {
			handler := testkit.Must(httplimit.New(l, httplimit.Options{Policies: []httplimit.Policy{
				{Name: "api", Wait: time.Hour, Key: httplimit.Global(), Limits: []slidegate.Limit{limit}},
			}}))(t).Wrap(served)
			return func(r *http.Request) bool {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Code == http.StatusNoContent
			}
		},
		"transport": func(l *slidegate.Limiter) func(*http.Request) bool {
			transport := testkit.Must(httplimit.NewTransport(handlerTransport{served}, httplimit.TransportOptions{
				Limiter: testkit.Must(l.With(limit))(t), Wait: true, Key: httplimit.Global(),
			}))(t)
			return func(r *http.Request) bool {
				response, err := transport.RoundTrip(r)
				return err == nil && response.StatusCode == http.StatusNoContent
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter := testkit.Must(slidegate.New(distant{testkit.Must(memstore.New(memstore.Options{}))(t)}))(t)
			send := make(limiter)
			random := rand.New(rand.NewPCG(1, 2))
			var admitted atomic.Int64
			var all sync.WaitGroup
			for i := range 3 * quota {
				ctx, cancel := context.WithCancel(t.Context())
				come, stays := time.Duration(random.Int64N(int64(time.Second))), time.Duration(random.Int64N(int64(50*time.Millisecond)))
				if i%2 == 0 { // more than can be admitted
					stays = time.Minute
				}
				all.Go(func() {
					defer cancel()
					testkit.Delay(come)
					defer time.AfterFunc(stays, cancel).Stop()
					if send(httptest.NewRequest("GET", "/", nil).WithContext(ctx)) {
						admitted.Add(1)
					}
				})
			}
			all.Wait()
			if n := admitted.Load(); n != quota {
				t.Errorf("%s: %d admitted, want all %d", name, n, quota)
			}
		})
	}
}

// handlerTransport answers with a handler.
type handlerTransport struct{ http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}
