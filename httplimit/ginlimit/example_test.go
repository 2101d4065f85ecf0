package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/ginlimit"
	"github.com/slidegate/slidegate/memstore"
)

// Every address gets two requests an hour.
func Example() {
	gin.SetMode(gin.ReleaseMode)
	store, _ := memstore.New(memstore.Options{})

	limiter, _ := slidegate.New(store, slidegate.PerHour(2))
	limits, _ := httplimit.New(limiter, httplimit.Options{})
	r := gin.New()
	r.Use(ginlimit.New(limits))

	r.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	for range 3 {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 200 text/plain; charset=utf-8
	// 200 text/plain; charset=utf-8
	// 429 application/problem+json
}

// Only wrong passwords count: three per minute and address.
func ExampleNew_failedLogins() {
	gin.SetMode(gin.ReleaseMode)
	store, _ := memstore.New(memstore.Options{})
	limiter, _ := slidegate.New(store, slidegate.PerMinute(3))
	limits, _ := httplimit.New(limiter, httplimit.Options{Policies: []httplimit.Policy{{
		Name:      "login",
		CostAfter: httplimit.CostIfStatus(func(status int) bool { return status == http.StatusUnauthorized }),
	}}})

	r := gin.New()
	r.POST("/login", ginlimit.New(limits), func(c *gin.Context) {
		if c.Query("password") != "secret" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.Status(http.StatusNoContent)
	})
	for _, password := range []string{"secret", "a", "b", "secret", "c", "d", "secret"} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Print(w.Code, " ")
	}
	// Output: 204 401 401 204 401 429 429
}
