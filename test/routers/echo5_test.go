package routers

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
)

func echo5Site(limits *httplimit.Middleware, s *site) http.Handler {
	e := newEcho5()
	if s.recoverInside {
		e.Use(echo5limit.New(limits), recoverEcho5)
	} else {
		e.Use(recoverEcho5, echo5limit.New(limits))
	}
	greet := func(c *echo.Context) error { return c.String(http.StatusOK, s.greet(c.Param("name"))) }
	e.GET("/hello/:name", greet)
	e.HEAD("/hello/:name", greet)
	e.GET("/json", func(c *echo.Context) error { return c.JSON(http.StatusOK, map[string]bool{"ok": true}) })
	e.GET("/nothing", func(c *echo.Context) error { return c.NoContent(http.StatusNoContent) })
	e.GET("/moved", func(c *echo.Context) error { return c.Redirect(http.StatusFound, "/json") })
	e.GET("/file", func(c *echo.Context) error {
		http.ServeFile(c.Response(), c.Request(), s.file)
		return nil
	})
	e.GET("/cost", func(c *echo.Context) error {
		httplimit.SetCost(c.Request(), 3)
		return nil
	})
	e.POST("/login", func(c *echo.Context) error {
		if c.QueryParam("password") != "right" {
			return echo.NewHTTPError(http.StatusUnauthorized, "wrong password")
		}
		return nil
	})
	e.GET("/fails", func(*echo.Context) error { return errors.New("failed") })
	e.GET("/panics", func(*echo.Context) error { panic("a bug") })
	e.GET("/stream", func(c *echo.Context) error {
		s.stream(c.Response())
		return nil
	})
	e.GET("/upgrade", func(c *echo.Context) error {
		upgrade(c.Response())
		return nil
	})
	e.GET("/deadline", func(c *echo.Context) error {
		setDeadline(c.Response())
		return nil
	})
	return e
}

// recoverEcho5 does what echo's Recover does, without the log.
func recoverEcho5(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) (err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("panic")
			}
		}()
		return next(c)
	}
}

func newEcho5() *echo.Echo {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler)
	return e
}

var errTeapot = errors.New("a teapot")

// The application's HTTPErrorHandler decides what the client gets, and policies see that. It responds once, whether or not it
// checks if the response is committed; and outer middleware sees the error.
func TestEcho5ErrorHandlers(t *testing.T) {
	for _, test := range []struct {
		name            string
		checksCommitted bool // checks, and returns, if the response is committed
		after           bool
		wantAnswers     int
	}{
		{"that looks, with CostAfter", true, true, 1},
		{"that looks, without After", true, false, 1},
		{"that does not look, with CostAfter", false, true, 2},
		{"that does not look, without After", false, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var answers int
			var outerErr error
			e := newEcho5()
			e.HTTPErrorHandler = func(c *echo.Context, err error) {
				if test.checksCommitted && committedEcho5(c) {
					return
				}
				answers++
				_ = c.String(http.StatusTeapot, err.Error())
			}
			limits, seen := responseWatcher(t)
			if !test.after {
				limits = newLimits(t, httplimit.Policy{Limits: perMinute(1000)})
			}
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					outerErr = next(c)
					if committedEcho5(c) != test.after {
						t.Errorf("got committed %v", !test.after)
					}
					return outerErr
				}
			}, echo5limit.New(limits))
			e.GET("/", func(*echo.Context) error { return errTeapot })
			got := do(t, "GET", "http://"+serve(t, e))
			if got.StatusCode != http.StatusTeapot || got.body != errTeapot.Error() {
				t.Errorf("client: got %d %q", got.StatusCode, got.body)
			}
			if answers != test.wantAnswers || outerErr != errTeapot {
				t.Errorf("got %d responses of the handler, want %d; outer middleware saw %v", answers, test.wantAnswers, outerErr)
			}
			if test.after {
				if answer := <-seen; answer.Status != http.StatusTeapot || int(answer.Bytes) != len(got.body) {
					t.Errorf("policy: got %+v", answer)
				}
			}
		})
	}
}

// Outer middleware finds the final status and size in the response.
func TestEcho5OuterMiddlewareSeesTheResponse(t *testing.T) {
	limits, _ := responseWatcher(t)
	var status int
	var size int64
	e := newEcho5()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			err := next(c)
			answer := responseEcho5(c)
			status, size = answer.Status, answer.Size
			return err
		}
	}, echo5limit.New(limits))
	e.GET("/error", func(*echo.Context) error { return echo.NewHTTPError(http.StatusConflict, "conflict") })
	e.GET("/answer", func(c *echo.Context) error { return c.String(http.StatusCreated, "created") })
	address := serve(t, e)
	for _, path := range []string{"/error", "/answer", "/missing"} {
		got := do(t, "GET", "http://"+address+path)
		if got.StatusCode != status || int64(len(got.body)) != size {
			t.Errorf("%s: got %d and %d bytes in outer middleware, want the client's %d %q", path, status, size, got.StatusCode, got.body)
		}
	}
}

// An error after the response changes nothing.
func TestEcho5ErrorAfterTheResponse(t *testing.T) {
	limits, seen := responseWatcher(t)
	calls := make(chan error, 2)
	e := newEcho5()
	e.HTTPErrorHandler = func(_ *echo.Context, err error) { calls <- err }
	e.Use(echo5limit.New(limits))
	e.GET("/", func(c *echo.Context) error {
		_ = c.String(http.StatusCreated, "created")
		return errTeapot
	})
	got := do(t, "GET", "http://"+serve(t, e))
	if answer := <-seen; answer.Status != 201 || answer.Bytes != 7 || got.StatusCode != 201 || got.body != "created" {
		t.Errorf("policy: got %+v, client: got %d %q, want 201 of 7 bytes, and 201 created", answer, got.StatusCode, got.body)
	}
	if err := <-calls; err != errTeapot || len(calls) > 0 {
		t.Errorf("handler: got a call with %v, and %d more", err, len(calls))
	}
}

// With nested middlewares, all see the same response, and the error is handled once.
func TestEcho5SeveralMiddlewares(t *testing.T) {
	limits, seen := responseWatcher(t)
	answers := 0
	e := newEcho5()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if !committedEcho5(c) {
			answers++
			_ = c.String(http.StatusTeapot, err.Error())
		}
	}
	wrapped := echo.WrapMiddleware(func(next http.Handler) http.Handler { return next })
	e.Pre(echo5limit.New(limits))
	e.Use(echo5limit.New(limits), wrapped, middleware.Gzip(), echo5limit.New(limits), wrapped, echo5limit.New(limits))
	e.GET("/", func(*echo.Context) error { return errTeapot })
	got := do(t, "GET", "http://"+serve(t, e))
	for range 4 {
		if answer := <-seen; answer.Status != http.StatusTeapot || answer.Bytes == 0 {
			t.Errorf("policy: got %+v", answer)
		}
	}
	if got.StatusCode != http.StatusTeapot || got.body != errTeapot.Error() || answers != 1 {
		t.Errorf("client: got %d %q, with %d calls of the error handler", got.StatusCode, got.body, answers)
	}
}

// After a panic outer middleware finds the response unchanged, with its own writer below.
func TestEcho5PanicRestoresTheWriter(t *testing.T) {
	limits, seen := responseWatcher(t)
	e := newEcho5()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			outer, below := c.Response(), responseEcho5(c).Unwrap()
			defer func() {
				if recover() == nil || c.Response() != outer || responseEcho5(c).Unwrap() != below {
					t.Error("got no panic, or another writer than before")
				}
			}()
			return next(c)
		}
	}, echo5limit.New(limits))
	e.GET("/", func(*echo.Context) error { panic("a bug") })
	do(t, "GET", "http://"+serve(t, e))
	if answer := <-seen; answer.Status != http.StatusInternalServerError {
		t.Errorf("policy: got %+v", answer)
	}
}

// A hook may change the status just before it is sent.
func TestEcho5Hooks(t *testing.T) {
	limits, seen := responseWatcher(t)
	e := newEcho5()
	e.Use(echo5limit.New(limits))
	e.GET("/", func(c *echo.Context) error {
		answer := responseEcho5(c)
		answer.Before(func() { answer.Status = http.StatusTeapot })
		return c.NoContent(http.StatusOK)
	})
	got := do(t, "GET", "http://"+serve(t, e))
	if answer := <-seen; answer.Status != http.StatusTeapot || got.StatusCode != http.StatusTeapot {
		t.Errorf("policy: got %+v, client: got %d", answer, got.StatusCode)
	}
}

func TestEcho5Nil(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "echo5limit: ") {
			t.Errorf("got panic %q", text)
		}
	}()
	echo5limit.New(nil)
}

func responseEcho5(c *echo.Context) *echo.Response {
	answer, _ := echo.UnwrapResponse(c.Response())
	return answer
}

func committedEcho5(c *echo.Context) bool { return responseEcho5(c).Committed }
