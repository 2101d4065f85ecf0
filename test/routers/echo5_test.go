package routers

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
)

var echo5Version = echoVersion[*echo.Context]{
	pkg: "echo5limit",
	newApp: func() *echoApp[*echo.Context] {
		e := newEcho5()
		return &echoApp[*echo.Context]{
			Handler: e,
			use:     func(m echoMiddleware[*echo.Context]) { e.Use(toEcho5(m)) },
			pre:     func(m echoMiddleware[*echo.Context]) { e.Pre(toEcho5(m)) },
			handle:  func(method, path string, h func(*echo.Context) error) { e.Add(method, path, h) },
			onError: func(do func(*echo.Context, error)) { e.HTTPErrorHandler = do },
		}
	},
	limit: func(limits *httplimit.Middleware) echoMiddleware[*echo.Context] {
		return ofEcho5(echo5limit.New(limits))
	},
	wrap:      ofEcho5(echo.WrapMiddleware(func(next http.Handler) http.Handler { return next })),
	gzip:      ofEcho5(middleware.Gzip()),
	httpError: func(status int, text string) error { return echo.NewHTTPError(status, text) },
	writer:    func(c *echo.Context) http.ResponseWriter { return c.Response() },
	response: func(c *echo.Context) echoResponse {
		r, _ := echo.UnwrapResponse(c.Response())
		return echoResponse{&r.Status, r.Size, r.Committed, r.Unwrap(), r.Before}
	},
}

func toEcho5(m echoMiddleware[*echo.Context]) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc { return m(next) }
}

func ofEcho5(m echo.MiddlewareFunc) echoMiddleware[*echo.Context] {
	return func(next func(*echo.Context) error) func(*echo.Context) error { return m(next) }
}

func newEcho5() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	return e
}

func TestEcho5(t *testing.T) { testEcho(t, echo5Version) }
