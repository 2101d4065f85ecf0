// Package api is a handler with a limit; its tests show how to test one in virtual time.
package api

import (
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/store"
)

// New returns a handler that admits two requests per minute for each client address, and refuses all of them while the
// store does not answer. The program passes its Redis, tests pass a memstore.
func New(counts store.Store) (http.Handler, error) {
	limiter, err := slidegate.New(counts, slidegate.PerMinute(2))
	if err != nil {
		return nil, err
	}
	limits, err := httplimit.New(limiter, httplimit.Options{Failure: store.FailClosed})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	return limits.Wrap(mux), nil
}
