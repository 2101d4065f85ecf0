package routers

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/ginlimit"
)

func ginSite(limits *httplimit.Middleware, s *site) http.Handler {
	r := gin.New()
	recovery := gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(http.StatusInternalServerError) })
	if s.recoverInside {
		r.Use(ginlimit.New(limits), recovery)
	} else {
		r.Use(recovery, ginlimit.New(limits))
	}
	r.GET("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "%s", s.greet(c.Param("name"))) })
	r.HEAD("/hello/:name", func(c *gin.Context) { c.String(http.StatusOK, "%s", s.greet(c.Param("name"))) })
	r.GET("/json", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"ok": true}) })
	r.GET("/nothing", func(c *gin.Context) { c.Status(http.StatusNoContent) })
	r.GET("/moved", func(c *gin.Context) { c.Redirect(http.StatusFound, "/json") })
	r.GET("/file", func(c *gin.Context) { c.File(s.file) })
	r.GET("/cost", func(c *gin.Context) { httplimit.SetCost(c.Request, 3) })
	r.POST("/login", func(c *gin.Context) {
		if c.Query("password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
		}
	})
	r.GET("/fails", func(c *gin.Context) { c.Data(http.StatusInternalServerError, "text/plain", []byte("failed")) })
	r.GET("/panics", func(*gin.Context) { panic("a bug") })
	r.GET("/stream", func(c *gin.Context) { s.stream(c.Writer) })
	r.GET("/upgrade", func(c *gin.Context) { upgrade(c.Writer) })
	r.GET("/deadline", func(c *gin.Context) { setDeadline(c.Writer) })
	return r
}

// A handler behind the middleware is not called after a refusal, and one before it still sees the response.
func TestGinChainStops(t *testing.T) {
	for name, after := range map[string]httplimit.CostAfter{"without CostAfter": nil, "with CostAfter": httplimit.CostFromHandler()} {
		calls := make(chan string, 20)
		r := gin.New()
		r.Use(
			func(c *gin.Context) {
				c.Next()
				calls <- fmt.Sprint("outer saw ", c.Writer.Status(), " ", c.Writer.Written(), " ", c.IsAborted())
			},
			ginlimit.New(newLimits(t, httplimit.Policy{Limits: perMinute(1), CostAfter: after})),
			func(c *gin.Context) {
				c.Next()
				calls <- fmt.Sprint("inner saw ", c.Writer.Status(), " ", c.Writer.Size())
			},
		)
		r.GET("/", func(c *gin.Context) { c.String(http.StatusAccepted, "hello") })
		address := serve(t, r)
		do(t, "GET", "http://"+address)
		do(t, "GET", "http://"+address)
		close(calls)
		got := strings.Join(slices.Collect(values(calls)), ", ")
		if want := "inner saw 202 5, outer saw 202 true false, outer saw 429 true true"; got != want {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
	}
}

// values returns the remaining values of a closed channel.
func values[T any](from <-chan T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for value := range from {
			if !yield(value) {
				return
			}
		}
	}
}

// The state of a writer is correct while a handler writes, behind a policy that sees the response.
func TestGinWriterState(t *testing.T) {
	limits, seen := responseWatcher(t)
	states := make(chan string, 1)
	r := gin.New()
	r.Use(ginlimit.New(limits))
	r.GET("/", func(c *gin.Context) {
		var b strings.Builder
		tell := func() { fmt.Fprint(&b, c.Writer.Status(), c.Writer.Size(), c.Writer.Written(), " ") }
		tell()
		c.Status(http.StatusTeapot)
		tell()
		c.Status(http.StatusCreated) // a status that is not yet sent can change
		_, _ = c.Writer.WriteString("four")
		tell()
		c.Status(http.StatusTeapot) // too late
		_, _ = c.Writer.Write([]byte("more"))
		tell()
		states <- b.String()
	})
	got := do(t, "GET", "http://"+serve(t, r))
	if states, want := <-states, "200 -1 false 418 -1 false 201 4 true 201 8 true "; states != want {
		t.Errorf("got %s\nwant %s", states, want)
	}
	if answer := <-seen; answer.Status != 201 || answer.Bytes != 8 || got.StatusCode != 201 || got.body != "fourmore" {
		t.Errorf("policy: got %+v, client: got %d %q, want 201 of 8 bytes, and 201 fourmore", answer, got.StatusCode, got.body)
	}
}

// The status can be set and sent without a body, be replaced by a handler for missing pages, or be sent by AbortWithStatus.
func TestGinStatusAlone(t *testing.T) {
	limits, seen := responseWatcher(t)
	r := gin.New()
	r.Use(ginlimit.New(limits))
	r.GET("/status", func(c *gin.Context) { c.Status(http.StatusTeapot) })
	r.GET("/now", func(c *gin.Context) {
		c.Status(http.StatusTeapot)
		c.Writer.WriteHeaderNow()
	})
	r.GET("/abort", func(c *gin.Context) { c.AbortWithStatus(http.StatusTeapot) })
	r.NoRoute(func(c *gin.Context) { c.String(http.StatusTeapot, "no such page") })
	address := serve(t, r)
	for _, path := range []string{"/status", "/now", "/abort", "/missing"} {
		got := do(t, "GET", "http://"+address+path)
		answer := <-seen
		if got.StatusCode != http.StatusTeapot || answer.Status != http.StatusTeapot || int(answer.Bytes) != len(got.body) {
			t.Errorf("%s: policy: got %+v, client: got %d %q", path, answer, got.StatusCode, got.body)
		}
	}
}

// A status that was sent counts, even if the handler panics afterwards; and outer middleware finds its own writer.
func TestGinPanicAfterTheStatus(t *testing.T) {
	limits, seen := responseWatcher(t)
	r := gin.New()
	r.Use(func(c *gin.Context) {
		outer := c.Writer
		defer func() {
			if recover() == nil || c.Writer != outer {
				t.Error("got no panic, or another writer than before")
			}
		}()
		c.Next()
	}, ginlimit.New(limits))
	r.GET("/", func(c *gin.Context) {
		c.Status(http.StatusTeapot)
		c.Writer.WriteHeaderNow()
		panic("a bug")
	})
	got := do(t, "GET", "http://"+serve(t, r))
	if answer := <-seen; answer.Status != http.StatusTeapot || got.StatusCode != http.StatusTeapot {
		t.Errorf("policy: got %+v, client: got %d", answer, got.StatusCode)
	}
}

// Events are sent one by one.
func TestGinEvents(t *testing.T) {
	for name, limits := range observers(t) {
		proceed := make(chan struct{})
		r := gin.New()
		r.Use(ginlimit.New(limits))
		r.GET("/", func(c *gin.Context) {
			events := 0
			c.Stream(func(io.Writer) bool {
				if events > 0 {
					<-proceed
				}
				events++
				c.SSEvent("tick", events)
				return events < 3
			})
		})
		answer, err := http.Get("http://" + serve(t, r))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewScanner(answer.Body)
		for i := range 3 {
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "data:") {
			}
			if want := fmt.Sprint("data:", i+1); lines.Text() != want {
				t.Errorf("%s: got %q, want %s", name, lines.Text(), want)
			}
			if i < 2 {
				proceed <- struct{}{}
			}
		}
	}
}

// uncomparableWriter is a writer of a type that is not comparable, as other middleware may use.
type uncomparableWriter struct {
	gin.ResponseWriter
	_ []int
}

func TestGinOverOtherWriters(t *testing.T) {
	limits, seen := responseWatcher(t)
	r := gin.New()
	r.Use(
		func(c *gin.Context) { c.Writer = uncomparableWriter{ResponseWriter: c.Writer} },
		ginlimit.New(newLimits(t, httplimit.Policy{Limits: perMinute(1000)})),
		ginlimit.New(limits),
		ginlimit.New(newLimits(t, httplimit.Policy{Limits: perMinute(1000), CostAfter: httplimit.CostFromHandler()})),
	)
	r.GET("/", func(c *gin.Context) { c.String(http.StatusCreated, "hello") })
	got := do(t, "GET", "http://"+serve(t, r))
	if answer := <-seen; answer.Status != 201 || answer.Bytes != 5 || got.StatusCode != 201 || got.body != "hello" {
		t.Errorf("policy: got %+v, client: got %d %q, want 201 of 5 bytes, and 201 hello", answer, got.StatusCode, got.body)
	}
}

func TestGinNil(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "ginlimit: ") {
			t.Errorf("got panic %q", text)
		}
	}()
	ginlimit.New(nil)
}
