package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/slidegate/slidegate/httplimit"
)

// New returns a gin middleware that limits requests. A refused request gets its response from the middleware and its chain is
// aborted, so that no later handler runs. The client is the peer of the connection unless a policy's Key differs: gin's own
// settings for trusted proxies are not used. Parameters of the route are path values of the request, for httplimit.ByPathValue.
//
// A connection that a handler takes over holds the slots of in-flight limits until it is closed.
//
// New panics if limits is nil. The handler is safe for concurrent use.
func New(limits *httplimit.Middleware) gin.HandlerFunc {
	if limits == nil {
		panic("ginlimit: limits: must not be nil; use httplimit.New")
	}
	return func(c *gin.Context) {
		for _, param := range c.Params {
			c.Request.SetPathValue(param.Key, param.Value)
		}
		to := &target{c.Writer}
		admitted := false
		limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			c.Request = r
			if w == http.ResponseWriter(to) {
				c.Next() // no policy needs the response
				return
			}
			callNext(c, w)
		})).ServeHTTP(to, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}

// callNext calls the remaining handlers with w as their response writer, which writes to c.Writer.
func callNext(c *gin.Context, w http.ResponseWriter) {
	outer := c.Writer
	recorded := &writer{ResponseWriter: outer, to: w}
	c.Writer = recorded
	defer func() { c.Writer = outer }() // also after a panic: gin.Recovery may be outside
	c.Next()
	recorded.reportStatus()
}

// target is the gin.ResponseWriter that the middleware writes to. It has its own type so that New can recognize it: a writer
// that another middleware has put into the context might not be comparable.
type target struct{ gin.ResponseWriter }

// Unwrap is for http.ResponseController.
func (t *target) Unwrap() http.ResponseWriter { return t.ResponseWriter }
