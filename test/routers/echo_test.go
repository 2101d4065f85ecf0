package routers

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/httplimit"
)

// echoContext is what the contexts of both versions of echo have.
type echoContext interface {
	Request() *http.Request
	Param(name string) string
	QueryParam(name string) string
	String(status int, text string) error
	JSON(status int, value any) error
	NoContent(status int) error
	Redirect(status int, url string) error
}

type echoMiddleware[C echoContext] func(next func(C) error) func(C) error

// echoVersion is a version of echo, as the tests of both use it.
type echoVersion[C echoContext] struct {
	pkg        string // of its adapter
	newApp     func() *echoApp[C]
	limit      func(*httplimit.Middleware) echoMiddleware[C]
	wrap, gzip echoMiddleware[C]
	httpError  func(status int, text string) error
	writer     func(C) http.ResponseWriter
	response   func(C) echoResponse
}

// echoApp is an application.
type echoApp[C echoContext] struct {
	http.Handler
	use, pre func(echoMiddleware[C])
	handle   func(method, path string, h func(C) error)
	onError  func(func(C, error))
}

func (a *echoApp[C]) get(path string, h func(C) error) { a.handle(http.MethodGet, path, h) }

// echoResponse is the state of echo's own response.
type echoResponse struct {
	status    *int
	size      int64
	committed bool
	below     http.ResponseWriter
	before    func(func())
}

// echoSite returns the site of a version.
func echoSite[C echoContext](v echoVersion[C]) func(*httplimit.Middleware, *site) http.Handler {
	return func(limits *httplimit.Middleware, s *site) http.Handler {
		e := v.newApp()
		if s.recoverInside {
			e.use(v.limit(limits))
			e.use(recoverEcho)
		} else {
			e.use(recoverEcho)
			e.use(v.limit(limits))
		}
		greet := func(c C) error { return c.String(http.StatusOK, s.greet(c.Param("name"))) }
		e.get("/hello/:name", greet)
		e.handle("HEAD", "/hello/:name", greet)
		e.get("/json", func(c C) error { return c.JSON(http.StatusOK, map[string]bool{"ok": true}) })
		e.get("/nothing", func(c C) error { return c.NoContent(http.StatusNoContent) })
		e.get("/moved", func(c C) error { return c.Redirect(http.StatusFound, "/json") })
		e.get("/file", func(c C) error {
			http.ServeFile(v.writer(c), c.Request(), s.file)
			return nil
		})
		e.get("/cost", func(c C) error {
			httplimit.SetCost(c.Request(), 3)
			return nil
		})
		e.handle("POST", "/login", func(c C) error {
			if c.QueryParam("password") != "right" {
				return v.httpError(http.StatusUnauthorized, "wrong password")
			}
			return nil
		})
		e.get("/fails", func(C) error { return errors.New("failed") })
		e.get("/panics", func(C) error { panic("a bug") })
		e.get("/stream", func(c C) error {
			s.stream(v.writer(c))
			return nil
		})
		e.get("/upgrade", func(c C) error {
			upgrade(v.writer(c))
			return nil
		})
		e.get("/deadline", func(c C) error {
			setDeadline(v.writer(c))
			return nil
		})
		return e
	}
}

// recoverEcho does what echo's Recover does, without the log.
func recoverEcho[C echoContext](next func(C) error) func(C) error {
	return func(c C) (err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("panic")
			}
		}()
		return next(c)
	}
}

var errTeapot = errors.New("a teapot")

// testEcho runs the tests that both versions of echo have.
func testEcho[C echoContext](t *testing.T, v echoVersion[C]) {
	for name, test := range map[string]func(*testing.T, echoVersion[C]){
		"ErrorHandlers": errorHandlers[C], "OuterMiddlewareSeesTheResponse": outerMiddlewareSeesTheResponse[C],
		"ErrorAfterTheResponse": errorAfterTheResponse[C], "SeveralMiddlewares": severalMiddlewares[C],
		"PanicRestoresTheWriter": panicRestoresTheWriter[C], "Hooks": hooks[C], "Nil": nilLimits[C],
	} {
		t.Run(name, func(t *testing.T) { test(t, v) })
	}
}

// The application's HTTPErrorHandler decides what the client gets, and policies see that. It responds once, whether or not it
// checks if the response is committed; and outer middleware sees the error.
func errorHandlers[C echoContext](t *testing.T, v echoVersion[C]) {
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
			e := v.newApp()
			e.onError(func(c C, err error) {
				if test.checksCommitted && v.response(c).committed {
					return
				}
				answers++
				_ = c.String(http.StatusTeapot, err.Error())
			})
			limits, seen := responseWatcher(t)
			if !test.after {
				limits = newLimits(t, httplimit.Policy{Limits: perMinute(1000)})
			}
			e.use(func(next func(C) error) func(C) error {
				return func(c C) error {
					outerErr = next(c)
					if v.response(c).committed != test.after {
						t.Errorf("got committed %v", !test.after)
					}
					return outerErr
				}
			})
			e.use(v.limit(limits))
			e.get("/", func(C) error { return errTeapot })
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
func outerMiddlewareSeesTheResponse[C echoContext](t *testing.T, v echoVersion[C]) {
	limits, _ := responseWatcher(t)
	var status int
	var size int64
	e := v.newApp()
	e.use(func(next func(C) error) func(C) error {
		return func(c C) error {
			err := next(c)
			answer := v.response(c)
			status, size = *answer.status, answer.size
			return err
		}
	})
	e.use(v.limit(limits))
	e.get("/error", func(C) error { return v.httpError(http.StatusConflict, "conflict") })
	e.get("/answer", func(c C) error { return c.String(http.StatusCreated, "created") })
	address := serve(t, e)
	for _, path := range []string{"/error", "/answer", "/missing"} {
		got := do(t, "GET", "http://"+address+path)
		if got.StatusCode != status || int64(len(got.body)) != size {
			t.Errorf("%s: got %d and %d bytes in outer middleware, want the client's %d %q", path, status, size, got.StatusCode, got.body)
		}
	}
}

// An error after the response changes nothing.
func errorAfterTheResponse[C echoContext](t *testing.T, v echoVersion[C]) {
	limits, seen := responseWatcher(t)
	calls := make(chan error, 2)
	e := v.newApp()
	e.onError(func(_ C, err error) { calls <- err })
	e.use(v.limit(limits))
	e.get("/", func(c C) error {
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
func severalMiddlewares[C echoContext](t *testing.T, v echoVersion[C]) {
	limits, seen := responseWatcher(t)
	answers := 0
	e := v.newApp()
	e.onError(func(c C, err error) {
		if !v.response(c).committed {
			answers++
			_ = c.String(http.StatusTeapot, err.Error())
		}
	})
	e.pre(v.limit(limits))
	for _, m := range []echoMiddleware[C]{v.limit(limits), v.wrap, v.gzip, v.limit(limits), v.wrap, v.limit(limits)} {
		e.use(m)
	}
	e.get("/", func(C) error { return errTeapot })
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
func panicRestoresTheWriter[C echoContext](t *testing.T, v echoVersion[C]) {
	limits, seen := responseWatcher(t)
	e := v.newApp()
	e.use(func(next func(C) error) func(C) error {
		return func(c C) error {
			outer, below := v.writer(c), v.response(c).below
			defer func() {
				if recover() == nil || v.writer(c) != outer || v.response(c).below != below {
					t.Error("got no panic, or another writer than before")
				}
			}()
			return next(c)
		}
	})
	e.use(v.limit(limits))
	e.get("/", func(C) error { panic("a bug") })
	do(t, "GET", "http://"+serve(t, e))
	if answer := <-seen; answer.Status != http.StatusInternalServerError {
		t.Errorf("policy: got %+v", answer)
	}
}

// A hook may change the status just before it is sent.
func hooks[C echoContext](t *testing.T, v echoVersion[C]) {
	limits, seen := responseWatcher(t)
	e := v.newApp()
	e.use(v.limit(limits))
	e.get("/", func(c C) error {
		answer := v.response(c)
		answer.before(func() { *answer.status = http.StatusTeapot })
		return c.NoContent(http.StatusOK)
	})
	got := do(t, "GET", "http://"+serve(t, e))
	if answer := <-seen; answer.Status != http.StatusTeapot || got.StatusCode != http.StatusTeapot {
		t.Errorf("policy: got %+v, client: got %d", answer, got.StatusCode)
	}
}

func nilLimits[C echoContext](t *testing.T, v echoVersion[C]) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, v.pkg+": ") {
			t.Errorf("got panic %q", text)
		}
	}()
	v.limit(nil)
}
