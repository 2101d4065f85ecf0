package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/memstore"
)

// Reports take long, so each client may have one at a time, and three per hour.
func Example_inFlight() {
	limiter, _ := slidegate.New(memstore.NewDefault())
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{
		Name: "reports",
		Limits: []slidegate.Limit{
			slidegate.MustParseLimit("1 in-flight ttl=30s name=running"),
			slidegate.MustParseLimit("3/1h name=hourly"),
		},
	}}})
	started, finish := make(chan bool), make(chan bool)
	handler := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		started <- true
		<-finish
	}))
	send := func(done chan<- int) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/report", nil))
		if w.Code == http.StatusTooManyRequests {
			fmt.Println(w.Header().Get("RateLimit-Policy"))
			fmt.Println("try again in at most", w.Header().Get("Retry-After"), "seconds")
		}
		done <- w.Code
	}
	first, second, third := make(chan int, 1), make(chan int, 1), make(chan int, 1)
	go send(first)
	<-started
	send(second) // while the first one runs
	finish <- true
	fmt.Println(<-first, <-second)
	go send(third)
	<-started
	finish <- true
	fmt.Println(<-third)
	// Output:
	// "reports/running";q=1;qu="concurrent-requests", "reports/hourly";q=3;w=3600
	// try again in at most 30 seconds
	// 200 429
	// 200
}

// A handler that responds immediately and continues to work keeps its slot until the work is done.
func ExampleKeepSlots() {
	limiter, _ := slidegate.New(memstore.NewDefault(), slidegate.Slots(1, 30*time.Second))
	limits, _ := httplimit.New(limiter, httplimit.Options{})
	work, idle := make(chan bool), make(chan bool)
	handler := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		release := httplimit.KeepSlots(r)
		w.WriteHeader(http.StatusAccepted)
		go func() {
			<-work
			release()
			idle <- true
		}()
	}))
	send := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/jobs", nil))
		fmt.Println(w.Code)
	}
	send()
	send() // the first job is still running
	work <- true
	<-idle
	send()
	// Output:
	// 202
	// 429
	// 202
}
