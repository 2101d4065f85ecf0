package service_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
)

// The server's timeouts do not end the wait of a request that is in line for longer: by the policy, or because it says so.
func TestRequestsWaitLongerThanTimeouts(t *testing.T) {
	t.Parallel()
	const short = 200 * time.Millisecond
	s := start(t, "policies:\n  waits: {limits: [1/1s sliding-log], wait: 1500ms}\n  own: {limits: [1/1s sliding-log]}\n", func(o *service.Options) {
		o.SetTimeouts(short, short, short, time.Minute)
	})
	for _, body := range []string{`{"policy":"waits","key":"ann"}`, `{"policy":"own","key":"ann","wait_us":1500000}`} {
		for i := range 2 {
			began := time.Now()
			got, err := http.Post("http://"+s.Address("http")+"/v1/allow", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			text, err := io.ReadAll(got.Body)
			got.Body.Close()
			if err != nil || got.StatusCode != http.StatusOK || i == 1 && time.Since(began) < 2*short {
				t.Errorf("%s, request %d: got %d %s, %v after %v, want 200 after a second", body, i, got.StatusCode, text, err, time.Since(began))
			}
		}
	}
}

// A request with "wait_us": 0 does not wait, though its policy does.
func TestRequestsMayRefuseToWait(t *testing.T) {
	s := start(t, "policies: {p: {limits: [1/5s token-bucket], wait: 10s}}\n", nil)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		for _, path := range []string{"/v1/allow", "/v1/reserve"} {
			if got := s.send(t, "http", "POST", path, `{"key":"`+path+`","cost":1,"wait_us":0}`); got.status != want {
				t.Errorf("%s, request %d: got %d %s, want %d", path, i, got.status, got.body, want)
			}
		}
	}
}
