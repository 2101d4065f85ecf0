package routers

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/slidegate/slidegate/httplimit"
)

// Chi takes the middleware as it is. Use limits every route; r.With(limits.Wrap) limits one.
func Chi(limits *httplimit.Middleware, greet func(name string) string) http.Handler {
	r := chi.NewRouter()
	r.Use(limits.Wrap)
	r.Get("/hello/{name}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, greet(chi.URLParam(r, "name")))
	})
	return r
}
