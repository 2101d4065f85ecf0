package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/examples/api"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// get sends one request and checks the status and Retry-After of the answer.
func get(t *testing.T, handler http.Handler, status int, retryAfter string) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
	if w.Code != status || w.Header().Get("Retry-After") != retryAfter {
		t.Errorf("got status %d, Retry-After %q, want %d, %q", w.Code, w.Header().Get("Retry-After"), status, retryAfter)
	}
}

func TestThirdRequestIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, err := api.New(memstore.NewDefault())
		if err != nil {
			t.Fatal(err)
		}
		get(t, handler, http.StatusOK, "")
		time.Sleep(20 * time.Second) // takes no time: the bubble's clock jumps
		get(t, handler, http.StatusOK, "")
		get(t, handler, http.StatusTooManyRequests, "40")

		time.Sleep(40*time.Second - time.Microsecond)
		get(t, handler, http.StatusTooManyRequests, "1")
		time.Sleep(time.Microsecond)
		get(t, handler, http.StatusOK, "")
	})
}

// down is a store that cannot be reached.
type down struct{ store.Store }

func (down) Traits() store.Traits { return store.Traits{Name: "down", MaxCharges: 8, RoundTrips: 1} }

func (down) Apply(_ context.Context, batch []store.Request) error {
	err := errors.New("no route to host")
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, err := api.New(down{memstore.NewDefault()})
		if err != nil {
			t.Fatal(err)
		}
		get(t, handler, http.StatusServiceUnavailable, "1") // the store is tried again in a second
	})
}
