package routers

import (
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/slidegate/slidegate/httplimit"
)

// Fiber is not made of net/http and takes the middleware by its own adapter, which asks the middleware first and calls the
// handler afterwards. So nobody sees the response: policies with an After do not work here.
func Fiber(limits *httplimit.Middleware, greet func(name string) string) *fiber.App {
	app := fiber.New()
	app.Use(adaptor.HTTPMiddleware(limits.Wrap))
	app.Get("/hello/:name", func(c fiber.Ctx) error {
		return c.SendString(greet(c.Params("name")))
	})
	return app
}
