package echo5limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
	"github.com/slidegate/slidegate/memstore"
)

// Every address gets two requests an hour.
func Example() {
	store, _ := memstore.New(memstore.Options{})

	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{})
	e := echo.New()
	e.Use(echo5limit.New(limits))

	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
	for range 3 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=UTF-8
	// 200 text/plain; charset=UTF-8
	// 429 application/problem+json
}

// Only wrong passwords count: three per minute and address.
func ExampleNew_failedLogins() {
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerMinute(3))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{
		Name:      "login",
		CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusUnauthorized }),
	}}})

	e := echo.New()
	e.POST("/login", func(c *echo.Context) error {
		if c.QueryParam("password") != "secret" {
			return echo.ErrUnauthorized
		}
		return c.NoContent(http.StatusNoContent)
	}, echo5limit.New(limits))
	for _, password := range []string{"secret", "a", "b", "secret", "c", "d", "secret"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Print(w.Code, " ")
	}
	// Output: 204 401 401 204 401 429 429
}
