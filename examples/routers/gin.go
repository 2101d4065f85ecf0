package routers

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/slidegate/slidegate/httplimit"
)

// Gin needs an adapter, ginLimit.
func Gin(limits *httplimit.Middleware, greet func(name string) string) http.Handler {
	r := gin.New()
	r.Use(ginLimit(limits))
	r.GET("/hello/:name", func(c *gin.Context) {
		c.String(http.StatusOK, "%s", greet(c.Param("name")))
	})
	return r
}

// ginLimit makes a gin middleware. Gin goes on to the next handler unless it is told not to, so a refusal must end the
// chain.
func ginLimit(limits *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		admitted := false
		limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted = true
			writer := c.Writer
			defer func() { c.Writer = writer }()
			c.Request, c.Writer = r, ginWriter{writer, w}
			c.Next()
			w.WriteHeader(writer.Status())
		})).ServeHTTP(c.Writer, c.Request)
		if !admitted {
			c.Abort()
		}
	}
}

// ginWriter shows the middleware what handlers write, which policies with an After need. Gin settles on a status only when
// the body begins, so that is when it is told. Where no policy has an After, ginLimit needs neither this type nor the
// lines about writers.
type ginWriter struct {
	gin.ResponseWriter
	shown http.ResponseWriter // writes to the one above
}

func (w ginWriter) Write(p []byte) (int, error) {
	w.shown.WriteHeader(w.Status())
	return w.shown.Write(p)
}

func (w ginWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }
