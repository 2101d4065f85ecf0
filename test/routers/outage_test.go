package routers

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/redisstore/goredis"
)

// With a Redis that does not answer, or does not exist, this process counts: after the deadline, and soon immediately.
func TestRedisDoesNotAnswer(t *testing.T) {
	const timeout = 100 * time.Millisecond // the default
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, l := range map[string]net.Listener{"hung": silent, "refused": gone} {
		t.Run(name, func(t *testing.T) {
			forAll(t, func(t *testing.T, router router) {
				address := router.serve(t, overRedis(t, l.Addr().String()), newSite(t))
				fastest := time.Hour
				for i := range 6 {
					start := time.Now()
					got := do(t, "GET", "http://"+address+"/hello/ada")
					took := time.Since(start)
					want := http.StatusOK
					if i >= 3 {
						want = http.StatusTooManyRequests
					}
					if got.StatusCode != want || took > 4*time.Second { // the client alone would give up after 10
						t.Errorf("request %d: got %d after %v, want %d after about %v", i+1, got.StatusCode, took, want, timeout)
					}
					if i > 0 {
						fastest = min(fastest, took)
					}
				}
				if fastest >= timeout {
					t.Errorf("the fastest of the later requests took %v, want less than %v: none may wait for the store", fastest, timeout)
				}
			})
		})
	}
}

func overRedis(t *testing.T, addr string) *httplimit.Middleware {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	store, err := goredis.New(client, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := slidegate.New(store, perMinute(3)...)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := httplimit.New(limiter, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}
