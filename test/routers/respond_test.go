package routers

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
)

// respond serves requests of every router with a handler that limits by Respond, with the user of the query as the key, and then writes 202.
var respond = map[string]func(t *testing.T, limits *httplimit.Middleware) (address string){
	"net/http": func(t *testing.T, limits *httplimit.Middleware) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !limits.Respond(w, r, "logins", r.FormValue("user")) {
				w.WriteHeader(http.StatusAccepted)
			}
		}))
	},
	"gin": func(t *testing.T, limits *httplimit.Middleware) string {
		r := gin.New()
		r.GET("/", func(c *gin.Context) {
			if !limits.Respond(c.Writer, c.Request, "logins", c.Query("user")) {
				c.String(http.StatusAccepted, "done")
			}
		})
		return serve(t, r)
	},
	"echo4": func(t *testing.T, limits *httplimit.Middleware) string {
		e := echo4.New()
		e.GET("/", func(c echo4.Context) error {
			if limits.Respond(c.Response(), c.Request(), "logins", c.QueryParam("user")) {
				return nil
			}
			return c.String(http.StatusAccepted, "done")
		})
		return serve(t, e)
	},
	"echo5": func(t *testing.T, limits *httplimit.Middleware) string {
		e := echo5.New()
		e.GET("/", func(c *echo5.Context) error {
			if limits.Respond(c.Response(), c.Request(), "logins", c.QueryParam("user")) {
				return nil
			}
			return c.String(http.StatusAccepted, "done")
		})
		return serve(t, e)
	},
	"fiber": func(t *testing.T, limits *httplimit.Middleware) string {
		app := fiber.New()
		app.Get("/", func(c fiber.Ctx) error {
			if fiberlimit.Respond(c, limits, "logins", c.Query("user")) {
				return nil
			}
			return c.Status(http.StatusAccepted).SendString("done")
		})
		return serveFiber(t, app)
	},
}

// In every router, a handler can limit by a key of its own.
func TestRespondInHandlers(t *testing.T) {
	for name, start := range respond {
		t.Run(name, func(t *testing.T) {
			address := start(t, newLimits(t, httplimit.Policy{Name: "logins", Key: httplimit.ByHandler(), Limits: perMinute(2)}))
			for i, test := range []struct {
				user   string
				status int
				left   string
			}{
				{"ann", 202, `"logins";r=1;`}, {"bob", 202, `"logins";r=1;`}, {"ann", 202, `"logins";r=0;`}, {"ann", 429, `"logins";r=0;`},
				{"ANN", 202, `"logins";r=1;`}, {"bob", 202, `"logins";r=0;`},
			} {
				got := do(t, http.MethodGet, "http://"+address+"/?user="+test.user)
				if got.StatusCode != test.status || !strings.HasPrefix(got.Header.Get("RateLimit"), test.left) {
					t.Errorf("request %d: got %d and RateLimit %q, want %d and %q...", i+1, got.StatusCode, got.Header.Get("RateLimit"), test.status, test.left)
				}
				if kind := got.Header.Get("Content-Type"); got.StatusCode == 429 && kind != "application/problem+json" {
					t.Errorf("request %d: got a refusal of type %q, want problem+json", i+1, kind)
				}
			}
		})
	}
}
