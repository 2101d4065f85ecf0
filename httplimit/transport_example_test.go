package httplimit_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

// A client that sends a server at most 100 requests per minute, and waits for as long as the server asks.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()

	limiter := slidegate.MustNew(memstore.NewDefault(), slidegate.PerMinute(100))
	transport, err := httplimit.NewTransport(nil, httplimit.TransportOptions{
		Limiter: limiter,
		Wait:    true,
		MaxWait: 10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}

	for range 2 {
		response, err := client.Get(server.URL)
		var refused *httplimit.RefusedError
		if errors.As(err, &refused) {
			fmt.Println("not sent, try again in", refused.RetryAfter.Round(time.Second))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 429 Too Many Requests
	// not sent, try again in 30s
}
