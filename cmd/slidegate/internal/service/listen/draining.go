package listen

import (
	"context"
	"net/http"
)

// CloseWhenDraining returns a handler that, once the context draining has ended, makes every response the last one of its connection: it
// sends Connection: close in HTTP/1 and GOAWAY in HTTP/2. Clients then send their next request on another connection. Closing idle
// connections instead could make requests fail, since a server cannot know whether a request is on its way.
func CloseWhenDraining(draining context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Err() != nil && r.Header.Get("Upgrade") == "" { // a websocket sends Connection: Upgrade, and stays open
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
