package fiberlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gofiber/fiber/v3"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
	"github.com/slidegate/slidegate/memstore"
)

// Every address gets two requests an hour.
func Example() {
	store, _ := memstore.New(memstore.Options{})

	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{})
	app := fiber.New()
	app.Use(fiberlimit.New(limits))

	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	for range 3 {
		response, _ := app.Test(httptest.NewRequest("GET", "/", nil))
		fmt.Println(response.StatusCode, response.Header.Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 200 text/plain; charset=utf-8
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

	app := fiber.New()
	app.Post("/login", fiberlimit.New(limits), func(c fiber.Ctx) error {
		if c.Query("password") != "secret" {
			return fiber.ErrUnauthorized
		}
		return c.SendStatus(http.StatusNoContent)
	})
	for _, password := range []string{"secret", "a", "b", "secret", "c", "d", "secret"} {
		response, _ := app.Test(httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Print(response.StatusCode, " ")
	}
	// Output: 204 401 401 204 401 429 429
}
