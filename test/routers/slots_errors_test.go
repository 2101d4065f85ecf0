package routers

import (
	"errors"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"github.com/slidegate/slidegate/httplimit/echo4limit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
)

// An in-flight limit passes on errors of handlers: the application's error handler is called once, after outer middleware has
// seen the error and the slot is free.
func TestErrorsPassInFlightLimits(t *testing.T) {
	limits := inFlight(t, 1)
	var outer error
	calls := 0
	seen := func(err error) error {
		limits.awaitSlots(t, 1)
		if outer = err; calls > 0 {
			t.Error("the error handler was called before outer middleware")
		}
		return err
	}
	four := echo4.New()
	four.HTTPErrorHandler = func(err error, c echo4.Context) { calls++; _ = c.String(http.StatusTeapot, err.Error()) }
	four.Use(func(next echo4.HandlerFunc) echo4.HandlerFunc {
		return func(c echo4.Context) error { return seen(next(c)) }
	}, echo4limit.New(limits.Middleware))
	four.GET("/", func(echo4.Context) error { return errTeapot })
	five := echo5.New()
	five.HTTPErrorHandler = func(c *echo5.Context, err error) { calls++; _ = c.String(http.StatusTeapot, err.Error()) }
	five.Use(func(next echo5.HandlerFunc) echo5.HandlerFunc {
		return func(c *echo5.Context) error { return seen(next(c)) }
	}, echo5limit.New(limits.Middleware))
	five.GET("/", func(*echo5.Context) error { return errTeapot })
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		calls++
		return c.Status(http.StatusTeapot).SendString(err.Error())
	}})
	app.Use(func(c fiber.Ctx) error { return seen(c.Next()) }, fiberlimit.New(limits.Middleware))
	app.Get("/", func(fiber.Ctx) error { return errTeapot })
	for name, address := range map[string]string{"echo4": serve(t, four), "echo5": serve(t, five), "fiber": serveFiber(t, app)} {
		outer, calls = nil, 0
		got := do(t, "GET", "http://"+address)
		if got.StatusCode != http.StatusTeapot || got.body != errTeapot.Error() || calls != 1 || !errors.Is(outer, errTeapot) {
			t.Errorf("%s: got %d %q with %d calls of the error handler, and outer middleware saw %v; want 418, one call and the error",
				name, got.StatusCode, got.body, calls, outer)
		}
	}
}
