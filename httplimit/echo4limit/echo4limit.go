package echo4limit

import (
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/slidegate/slidegate/httplimit"
)

// New returns an echo middleware that limits requests. A refused request gets its response from the middleware, and no later
// handler runs. The client is the peer of the connection unless a policy's Key differs: echo's IPExtractor is not used.
// Parameters of the route are path values of the request, for httplimit.ByPathValue.
//
// A connection that a handler takes over holds the slots of in-flight limits until it is closed.
//
// A policy with a CostAfter must see the response before it can charge for it. If such a policy matches and a handler returns
// an error, the middleware calls echo's HTTPErrorHandler immediately. It then returns the error, so that outer middleware sees
// it; echo calls the HTTPErrorHandler again at the end, as it does after its own RequestLogger with HandleError. The default
// handler does nothing the second time. A custom one should return if c.Response().Committed is true; if it does not, what it
// writes the second time is discarded.
//
// New panics if limits is nil. The middleware is safe for concurrent use.
func New(limits *httplimit.Middleware) echo.MiddlewareFunc {
	if limits == nil {
		panic("echo4limit: limits: must not be nil; use httplimit.New")
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			setPathValues(c)
			to := &target{c.Response()}
			limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c.SetRequest(r)
				if w == http.ResponseWriter(to) {
					err = next(c) // no policy needs the response
					return
				}
				err = callNext(c, next, to, w)
			})).ServeHTTP(to, c.Request())
			return err
		}
	}
}

func setPathValues(c echo.Context) {
	values := c.ParamValues()
	for i, name := range c.ParamNames() {
		c.Request().SetPathValue(name, values[i])
	}
}

// callNext calls the next handler with w as its response writer, which writes to the target. w is placed below echo's
// Response, where the status is the one that is sent.
func callNext(c echo.Context, next echo.HandlerFunc, to *target, w http.ResponseWriter) error {
	response := c.Response()
	below := response.Writer
	to.ResponseWriter, response.Writer = below, w
	defer func() { response.Writer = below }() // also after a panic: echo's Recover may be outside
	needed := httplimit.NeedsResponse(c.Request())
	err := next(c)
	if err != nil && needed && !c.Response().Committed {
		c.Error(err)
		seal(c)
	}
	return err
}

// target is the http.ResponseWriter that the middleware writes to: echo's Response for a refusal, and the writer below it for
// an admitted request.
type target struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (t *target) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// seal discards all further writes to a response, so that an HTTPErrorHandler that is called again cannot append to it. The
// Response's own fields stay.
func seal(c echo.Context) {
	response := c.Response()
	sealed := echo.NewResponse(discard{response.Header()}, c.Echo())
	sealed.Status, sealed.Size, sealed.Committed = response.Status, response.Size, true
	c.SetResponse(sealed)
}

// discard is an http.ResponseWriter that writes nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) Flush()                      {}
