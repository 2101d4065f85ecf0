package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// waitingHandler is a handler of 20 requests a second, for which requests wait up to 4.5s. It records the paths that it serves.
func waitingHandler(t *testing.T, change func(*httplimit.Policy), opts httplimit.Options) (handler http.Handler, served func() []string) {
	store := testkit.Must(memstore.New(memstore.Options{}))(t)
	limits := httplimit.Policy{Name: "api", Wait: 4500 * time.Millisecond, Key: httplimit.Global(), Limits: []slidegate.Limit{slidegate.MustParseLimit("20/1s")}}
	if change != nil {
		change(&limits)
	}
	opts.Policies = []httplimit.Policy{limits}
	m := testkit.Must(httplimit.New(testkit.Must(slidegate.New(store))(t), opts))(t)
	var mu sync.Mutex
	var paths []string
	return m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			paths = append(paths, r.URL.Path)
		})), func() []string {
			mu.Lock()
			defer mu.Unlock()
			return paths
		}
}

// Of 200 requests at once, 20 are served at once and at 1, 2, 3 and 4 seconds, in the order in which they came. The others are refused at once,
// and who comes again after Retry-After is admitted.
func TestRequestsWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused, waited := 0, map[time.Duration]int{}
		handler, served := waitingHandler(t, nil, httplimit.Options{OnDecision: func(_ *http.Request, e httplimit.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Refused {
				refused++
			} else {
				waited[e.Waited.Round(time.Millisecond)]++
			}
		}})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				start := time.Now()
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/"+strconv.Itoa(i), nil))
				took := time.Since(start)
				want, after := http.StatusOK, ""
				if i >= 100 {
					want, after = http.StatusTooManyRequests, "5"
				}
				if w.Code != want || w.Header().Get("Retry-After") != after {
					t.Errorf("request %d: got %d with Retry-After %q, want %d with %q", i, w.Code, w.Header().Get("Retry-After"), want, after)
				}
				if turn := time.Duration(i/20) * time.Second; i < 100 && took != turn || i >= 100 && took != 0 {
					t.Errorf("request %d: answered after %v, want %v", i, took, turn)
				}
				if i == 100 {
					time.Sleep(5 * time.Second)
					w = httptest.NewRecorder()
					if handler.ServeHTTP(w, httptest.NewRequest("GET", "/again", nil)); w.Code != 200 || time.Since(start) != 5*time.Second {
						t.Errorf("again after Retry-After: %d after %v", w.Code, time.Since(start))
					}
				}
			})
			synctest.Wait()
		}
		all.Wait()
		for i, path := range served()[:100] { // the handlers of those that are admitted at the same moment run in any order
			if n, _ := strconv.Atoi(path[1:]); n/20 != i/20 {
				t.Fatalf("served %v", served())
			}
		}
		if refused != 100 || waited[0] != 21 || waited[4*time.Second] != 20 {
			t.Errorf("got %d refusals and waits %v", refused, waited)
		}
	})
}

// A client that leaves gives up its place, and is neither refused nor an outage.
func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, served := waitingHandler(t, func(p *httplimit.Policy) {
			p.Limits = []slidegate.Limit{slidegate.MustParseLimit("1/1s")}
		}, httplimit.Options{})
		var all sync.WaitGroup
		for i := range 4 { // at 0s, 1s, 2s, 3s; the second and the third leave
			ctx, cancel := context.WithCancel(t.Context())
			all.Go(func() {
				r := httptest.NewRequest("GET", "/"+strconv.Itoa(i), nil).WithContext(ctx)
				start := time.Now()
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, r); i == 3 && time.Since(start) != time.Second {
					t.Errorf("the last one was served after %v, want 1s", time.Since(start))
				}
				if left := i == 1 || i == 2; left != (w.Code == 499) {
					t.Errorf("request %d: got %d, want 499 only for those that left", i, w.Code)
				}
			})
			synctest.Wait()
			defer cancel()
			if i == 1 || i == 2 {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
		}
		all.Wait()
		if n := len(served()); n != 2 {
			t.Errorf("%d were served, want 2", n)
		}
	})
}

// Requests wait for slots too.
func TestRequestsWaitForSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := testkit.Must(memstore.New(memstore.Options{}))(t)
		m := testkit.Must(httplimit.New(testkit.Must(slidegate.New(store))(t), httplimit.Options{Policies: []httplimit.Policy{{
			Name: "slots", Wait: 10 * time.Second, Key: httplimit.Global(), Limits: []slidegate.Limit{slidegate.Slots(2, time.Minute)},
		}}}))(t)
		handler := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }))
		var all sync.WaitGroup
		start := time.Now()
		for i, ends := range []time.Duration{time.Second, time.Second, 2 * time.Second, 2 * time.Second, 3 * time.Second} {
			all.Go(func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if got := time.Since(start); w.Code != 200 || got != ends {
					t.Errorf("request %d: got %d after %v, want 200 after %v", i, w.Code, got, ends)
				}
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

func TestWaitErrors(t *testing.T) {
	limiter := testkit.Must(slidegate.New(memstore.NewDefault()))(t)
	strict := slidegate.PerMinute(5)
	strict.CountRefused = true
	for want, p := range map[string]httplimit.Policy{
		`httplimit: policy "p": wait: invalid limit: must be 0 to 1h0m0s, not -1ns`: {Wait: -1, Limits: []slidegate.Limit{slidegate.PerMinute(5)}},
		`httplimit: policy "p": wait: invalid limit: cannot be combined with penalty: a request that waits is not refused; leave one of them out`: {
			Wait: time.Second, Penalty: time.Second, Limits: []slidegate.Limit{slidegate.PerMinute(5)},
		},
		`httplimit: policy "p": limits: wait: cannot be combined with count_refused: a request that waits is not refused, and would not be counted; leave one of them out`: {
			Wait: time.Second, Limits: []slidegate.Limit{strict},
		},
	} {
		p.Name = "p"
		if _, err := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{p}}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
