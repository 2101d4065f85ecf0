package routers

import (
	"fmt"
	"net/http"

	"github.com/slidegate/slidegate/httplimit"
)

// Mux is the router of the standard library. Wrapping the route and not the mux lets the key be a part of the path: inside
// of the route, httplimit.ByPathValue("name") knows it. To limit all routes together, return limits.Wrap(mux) instead.
func Mux(limits *httplimit.Middleware, greet func(name string) string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /hello/{name}", limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, greet(r.PathValue("name")))
	})))
	return mux
}
