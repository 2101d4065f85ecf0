package routers

import (
	"io"
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo4limit"
)

var echo4Version = echoVersion[echo.Context]{
	pkg: "echo4limit",
	newApp: func() *echoApp[echo.Context] {
		e := newEcho4()
		return &echoApp[echo.Context]{
			Handler: e,
			use:     func(m echoMiddleware[echo.Context]) { e.Use(toEcho4(m)) },
			pre:     func(m echoMiddleware[echo.Context]) { e.Pre(toEcho4(m)) },
			handle:  func(method, path string, h func(echo.Context) error) { e.Add(method, path, h) },
			onError: func(do func(echo.Context, error)) {
				e.HTTPErrorHandler = func(err error, c echo.Context) { do(c, err) }
			},
		}
	},
	limit: func(limits *httplimit.Middleware) echoMiddleware[echo.Context] {
		return ofEcho4(echo4limit.New(limits))
	},
	wrap:      ofEcho4(echo.WrapMiddleware(func(next http.Handler) http.Handler { return next })),
	gzip:      ofEcho4(middleware.Gzip()),
	httpError: func(status int, text string) error { return echo.NewHTTPError(status, text) },
	writer:    func(c echo.Context) http.ResponseWriter { return c.Response() },
	response: func(c echo.Context) echoResponse {
		r := c.Response()
		return echoResponse{&r.Status, r.Size, r.Committed, r.Unwrap(), r.Before}
	},
}

func toEcho4(m echoMiddleware[echo.Context]) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc { return m(next) }
}

func ofEcho4(m echo.MiddlewareFunc) echoMiddleware[echo.Context] {
	return func(next func(echo.Context) error) func(echo.Context) error { return m(next) }
}

func newEcho4() *echo.Echo {
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	return e
}

func TestEcho4(t *testing.T) { testEcho(t, echo4Version) }
