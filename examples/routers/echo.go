package routers

import (
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/slidegate/slidegate/httplimit"
)

// Echo takes the middleware by its own adapter.
func Echo(limits *httplimit.Middleware, greet func(name string) string) http.Handler {
	e := echo.New()
	e.Use(echo.WrapMiddleware(limits.Wrap), echoErrors)
	e.GET("/hello/:name", func(c *echo.Context) error {
		return c.String(http.StatusOK, greet(c.Param("name")))
	})
	return e
}

// echoErrors answers the errors that handlers return. Echo does so by itself, but only when all middleware is through, and
// a policy with an After would take a failed request for a good one. Where no policy has an After, it can go.
func echoErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		err := next(c)
		if err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return err // other middleware may want to know; echo sees that it is answered
	}
}
