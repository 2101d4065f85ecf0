package routers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo4limit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
	"github.com/slidegate/slidegate/httplimit/ginlimit"
	"github.com/slidegate/slidegate/memstore"
)

// nested are sites of one route with its own middleware, inside a middleware for all routes.
var nested = map[string]func(t *testing.T, outer, inner *httplimit.Middleware) (address string){
	"net/http": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		mux := http.NewServeMux()
		mux.Handle("/", inner.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		return serve(t, outer.Wrap(mux))
	},
	"chi": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		r := chi.NewRouter()
		r.Use(outer.Wrap)
		r.With(inner.Wrap).Get("/", func(http.ResponseWriter, *http.Request) {})
		return serve(t, r)
	},
	"gin": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		r := gin.New()
		r.Use(ginlimit.New(outer))
		r.GET("/", ginlimit.New(inner), func(c *gin.Context) { c.Status(http.StatusOK) })
		return serve(t, r)
	},
	"echo4": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		e := echo.New()
		e.Use(echo4limit.New(outer))
		e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) }, echo4limit.New(inner))
		return serve(t, e)
	},
	"echo5": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		e := echo5.New()
		e.Use(echo5limit.New(outer))
		e.GET("/", func(c *echo5.Context) error { return c.NoContent(http.StatusOK) }, echo5limit.New(inner))
		return serve(t, e)
	},
	"fiber": func(t *testing.T, outer, inner *httplimit.Middleware) string {
		app := fiber.New()
		app.Use(fiberlimit.New(outer))
		app.Get("/", fiberlimit.New(inner), func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
		return serveFiber(t, app)
	},
}

// In every router, a middleware inside another adds its header fields to the outer one's.
func TestNestedMiddlewares(t *testing.T) {
	for name, site := range nested {
		for _, inside := range []string{"all", "login"} {
			t.Run(name+"/"+inside, func(t *testing.T) {
				store, err := memstore.New(memstore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				address := site(t, onStore(t, store, "all", 100), onStore(t, store, inside, 5))
				for range 2 {
					got := do(t, "GET", "http://"+address+"/")
					items := strings.Join(got.Header.Values("RateLimit"), ", ")
					if got.StatusCode != http.StatusOK || !strings.HasPrefix(items, `"all";r=9`) || !strings.Contains(items, `, "`+inside+`";r=`) {
						t.Errorf("got %d with RateLimit %s, want 200 with items of both", got.StatusCode, items)
					}
				}
			})
		}
	}
}

// onStore returns a middleware over a store.
func onStore(t *testing.T, store *memstore.Store, name string, quota int64) *httplimit.Middleware {
	t.Helper()
	limit := slidegate.PerMinute(quota)
	limit.Name = name
	limiter, err := slidegate.New(store, limit)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := httplimit.New(limiter, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return limits
}
