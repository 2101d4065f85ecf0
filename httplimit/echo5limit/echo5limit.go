package echo5limit

import (
	"net/http"

	"github.com/labstack/echo/v5"
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
// handler does nothing the second time. A custom one should return if the Response that echo.UnwrapResponse finds is Committed;
// if it does not, what it writes the second time is discarded.
//
// New panics if limits is nil. The middleware is safe for concurrent use.
func New(limits *httplimit.Middleware) echo.MiddlewareFunc {
	if limits == nil {
		panic("echo5limit: limits: must not be nil; use httplimit.New")
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) (err error) {
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

func setPathValues(c *echo.Context) {
	for _, value := range c.PathValues() {
		c.Request().SetPathValue(value.Name, value.Value)
	}
}

// callNext calls the next handler with w as its response writer, which writes to the target.
func callNext(c *echo.Context, next echo.HandlerFunc, to *target, w http.ResponseWriter) error {
	outer := c.Response()
	handled := false
	defer func() {
		c.SetResponse(outer) // also after a panic: echo's Recover may be outside
		if handled {
			c.SetResponse(sealedResponse{outer})
		}
	}()
	defer replaceWriter(c, to, w)()
	needed := httplimit.NeedsResponse(c.Request())
	err := next(c)
	if err != nil && needed && !committed(c) {
		c.Echo().HTTPErrorHandler(c, err)
		handled = true
	}
	return err
}

// replaceWriter makes handlers write to w, and returns a function that undoes it. w is placed below echo's Response, where the
// status is the one that is sent, or above the writer that another middleware has put in its place.
func replaceWriter(c *echo.Context, to *target, w http.ResponseWriter) (undo func()) {
	response, ok := c.Response().(*echo.Response)
	if !ok {
		c.SetResponse(w)
		return func() {}
	}
	below := response.ResponseWriter
	to.ResponseWriter, response.ResponseWriter = below, w
	return func() { response.ResponseWriter = below }
}

// committed reports whether a response has begun.
func committed(c *echo.Context) bool {
	response, err := echo.UnwrapResponse(c.Response())
	return err == nil && response.Committed
}

// target is the http.ResponseWriter that the middleware writes to: the context's for a refusal, and the writer below it for an
// admitted request.
type target struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (t *target) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// sealedResponse is a response that discards all further writes, so that an HTTPErrorHandler that is called again cannot
// append to it.
type sealedResponse struct{ http.ResponseWriter }

func (sealedResponse) WriteHeader(int)             {}
func (sealedResponse) Write(p []byte) (int, error) { return len(p), nil }
func (sealedResponse) Flush()                      {}

// Unwrap is for echo.UnwrapResponse.
func (s sealedResponse) Unwrap() http.ResponseWriter { return s.ResponseWriter }
