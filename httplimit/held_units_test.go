package httplimit

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// A request that outlasts the window holds its units until it has ended, and is charged what it used then.
func TestRequestsHoldUnits(t *testing.T) {
	for name, after := range map[string]CostAfter{"as admitted": nil, "as used": func(*http.Request, Response) int64 { return 2 }} {
		synctest.Test(t, func(t *testing.T) {
			limiter := testkit.Must(slidegate.New(testkit.Must(memstore.New(memstore.Options{}))(t)))(t)
			var failed []error
			m := testkit.Must(New(limiter, Options{
				Policies: []Policy{{
					Name: "tokens", Key: Global(), Limits: []slidegate.Limit{slidegate.MustParseLimit("10/1s hold=3s")},
					Cost: func(*http.Request) int64 { return 5 }, CostAfter: after,
				}},
				OnDecision: func(_ *http.Request, e Event) {
					if e.Err != nil {
						failed = append(failed, e.Err)
					}
				},
			}))(t)
			handler := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-time.After(10 * time.Second) }))
			statuses := make(chan int, 3)
			send := func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				statuses <- w.Code
			}
			go send()
			go send()
			testkit.Pass(9 * time.Second) // nine windows, and three holds
			send()
			if got := <-statuses; got != http.StatusTooManyRequests {
				t.Errorf("%s: while 10 are held: got status %d, want 429", name, got)
			}
			testkit.Pass(1100 * time.Millisecond)
			if a, b := <-statuses, <-statuses; a != 200 || b != 200 || len(failed) > 0 {
				t.Errorf("%s: got the statuses %d and %d, and the errors %v", name, a, b, failed)
			}
			want := int64(0)
			if after != nil {
				want = 6
			}
			if d, err := m.Peek(t.Context(), "tokens", ""); err != nil || d.Remaining != want {
				t.Errorf("%s: got %+v, %v, after the end of both, want %d left", name, d, err, want)
			}
		})
	}
}
