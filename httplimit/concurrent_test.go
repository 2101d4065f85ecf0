package httplimit

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/reply"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/policy"
	"github.com/slidegate/slidegate/rule"
)

// crowd is a middleware for many concurrent requests, in front of a handler, at noon.
func crowd(t *testing.T, opts Options, handler http.HandlerFunc, limits ...slidegate.Limit) http.Handler {
	t.Helper()
	store := testkit.Must(memstore.New(memstore.Options{Now: func() rule.Micros { return noon }}))(t)
	limiter := testkit.Must(limiterOn(store, limits))(t)
	m := testkit.Must(New(limiter, opts))(t)
	return m.Wrap(handler)
}

// However many requests are concurrent, exactly the quota is served, and no response shares memory with another.
func TestManyAtOnce(t *testing.T) {
	const quota, workers, each = 100, 8, 50
	hundred := []slidegate.Limit{slidegate.PerHour(quota)}
	for name, policies := range map[string][]Policy{
		"simple":  {{Limits: hundred}},
		"several": {{Name: "a", Limits: hundred}, {Name: "b", Limits: []slidegate.Limit{slidegate.PerHour(quota + 50)}}},
		"after":   {{Limits: hundred, CostAfter: CostFromHandler()}},
		"plan":    {{Limits: hundred, Plan: func(*http.Request) (policy.Plan, error) { return policy.Limits(hundred...), nil }}},
	} {
		t.Run(name, func(t *testing.T) {
			var served, events, admitted, refused atomic.Int64
			handler := crowd(t, Options{Policies: policies, OnDecision: func(*http.Request, Event) { events.Add(1) }},
				func(w http.ResponseWriter, _ *http.Request) {
					served.Add(1)
					for name := range w.Header() {
						w.Header()[name][0] = "mine" // if responses shared memory, the race detector would report it
						w.Header().Add(name, "mine too")
					}
				})
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for range each {
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
						switch w.Code {
						case http.StatusOK:
							admitted.Add(1)
						case http.StatusTooManyRequests:
							refused.Add(1)
						}
					}
				})
			}
			wg.Wait()
			reported := int64(workers*each - quota + quota*len(policies)) // by the one that refused, or by all that admitted
			if served.Load() != quota || admitted.Load() != quota || refused.Load() != workers*each-quota || events.Load() != reported {
				t.Errorf("got served %d, admitted %d, refused %d, events %d; want %d, %d, %d, %d", served.Load(), admitted.Load(), refused.Load(), events.Load(),
					quota, quota, workers*each-quota, reported)
			}
		})
	}
}

// Many new plans are used concurrently, while others are looked up.
func TestNewPlansAtOnce(t *testing.T) {
	const workers, plans = 4, 100
	handler := crowd(t, Options{Policies: []Policy{{Name: "api", Limits: []slidegate.Limit{named("usual", 7)}, Plan: func(r *http.Request) (policy.Plan, error) {
		return policy.Limits(named(r.Header.Get("X-Plan"), 1<<40)), nil
	}}}}, func(http.ResponseWriter, *http.Request) {})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range plans {
				w, plan := httptest.NewRecorder(), strconv.Itoa(i)
				handler.ServeHTTP(w, request("X-Plan: "+plan))
				if got, want := w.Header().Get("RateLimit-Policy"), `"api/`+plan+`";q=1099511627776;w=60`; got != want {
					t.Errorf("got RateLimit-Policy %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}

// Values that are appended to or overwritten in one response's headers do not show in the next response.
func TestHeadersAreNotShared(t *testing.T) {
	for dialect := range reply.Dialects {
		for _, quota := range []int64{1, 100} { // the second request is refused, or admitted
			handler := crowd(t, Options{Headers: dialect, Body: BodyJSON}, func(http.ResponseWriter, *http.Request) {}, slidegate.PerHour(quota))
			send := func() http.Header {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				return w.Header()
			}
			send()
			first := send()
			for name := range first {
				first.Add(name, "added")
				_ = append(first[name][:1], "written behind") // into the spare capacity behind the value, if there is any
			}
			for name, values := range send() {
				if values = values[:cap(values)]; len(values) != 1 || values[0] == "added" {
					t.Errorf("dialect %d: got %s %q, want one value that no other response has written", dialect, name, values)
				}
			}
		}
	}
}

// A handler that has timed out continues to run, and may set its cost while it is being settled.
func TestSetCostTooLate(t *testing.T) {
	late := make(chan bool)
	p := afterPlay(t, CostFromHandler(), func(_ http.ResponseWriter, r *http.Request) {
		SetCost(r, 3)
		go func() {
			SetCost(r, 4)
			close(late)
		}()
	})
	p.do(httptest.NewRequest("GET", "/", nil))
	<-late
	if got := p.left(); got != 7 && got != 6 {
		t.Errorf("got %d of 10 left after a cost of 3 or 4, want 7 or 6", got)
	}
}
