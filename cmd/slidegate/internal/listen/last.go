package listen

import (
	"context"
	"net/http"
)

// LastAnswers returns a handler that, once draining ends, has every answer be the last one of its connection: in HTTP/1 it says
// Connection: close, in HTTP/2 GOAWAY. A client then asks again on another connection, and need not find out by a failed request that this
// one is gone: a server that closes an idle connection cannot know that no request is on its way.
func LastAnswers(draining context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Err() != nil && r.Header.Get("Upgrade") == "" { // a websocket says Connection: Upgrade, and lasts
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
