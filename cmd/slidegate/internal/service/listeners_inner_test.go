package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A request without a response is counted as what became of it: its client has left, or its handler has a bug.
func TestRequestsWithoutResponse(t *testing.T) {
	for status, left := range map[int]bool{499: true, 500: false} {
		var q requests
		handler := q.http(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		ctx, cancel := context.WithCancel(t.Context())
		if left {
			cancel()
		}
		func() {
			defer func() { _ = recover() }()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		}()
		cancel()
		if n := q.status[status].Load(); n != 1 {
			t.Errorf("a client that has left: %v; got %d requests with %d, want 1", left, n, status)
		}
	}
}
