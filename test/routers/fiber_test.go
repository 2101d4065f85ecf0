package routers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	fiberrecover "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
)

func fiberSite(limits *httplimit.Middleware, s *site) *fiber.App {
	app := fiber.New()
	if s.recoverInside {
		app.Use(fiberlimit.New(limits), fiberrecover.New())
	} else {
		app.Use(fiberrecover.New(), fiberlimit.New(limits))
	}
	app.Get("/hello/:name", func(c fiber.Ctx) error { return c.SendString(s.greet(c.Params("name"))) })
	app.Get("/json", func(c fiber.Ctx) error { return c.JSON(fiber.Map{"ok": true}) })
	app.Get("/nothing", func(c fiber.Ctx) error { return c.SendStatus(http.StatusNoContent) })
	app.Get("/moved", func(c fiber.Ctx) error { return c.Redirect().Status(http.StatusFound).To("/json") })
	app.Get("/file", func(c fiber.Ctx) error { return c.SendFile(s.file) })
	app.Get("/cost", func(c fiber.Ctx) error {
		fiberlimit.SetCost(c, 3)
		return nil
	})
	app.Post("/login", func(c fiber.Ctx) error {
		if c.Query("password") != "right" {
			return fiber.NewError(http.StatusUnauthorized, "wrong password")
		}
		return nil
	})
	app.Get("/fails", func(fiber.Ctx) error { return errors.New("failed") })
	app.Get("/panics", func(fiber.Ctx) error { panic("a bug") })
	app.Get("/stream", func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) {
			fmt.Fprintln(w, "one")
			_ = w.Flush()
			<-s.proceed
			fmt.Fprintln(w, "two")
		})
	})
	app.Get("/upgrade", func(c fiber.Ctx) error {
		c.Set("Connection", "Upgrade")
		c.Set("Upgrade", "lines")
		c.Status(http.StatusSwitchingProtocols)
		c.RequestCtx().Hijack(func(conn net.Conn) { echoLines(conn, conn) })
		return nil
	})
	return app
}

// The application's ErrorHandler decides what the client gets, and policies see that. If it fails itself, the status is 500.
func TestFiberErrorHandlers(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler fiber.ErrorHandler
		status  int
		body    string
	}{
		{"default", nil, 500, "a teapot"},
		{"own", func(c fiber.Ctx, err error) error { return c.Status(http.StatusTeapot).SendString(err.Error()) }, 418, "a teapot"},
		{"appends", func(c fiber.Ctx, err error) error {
			_, writeErr := c.Status(http.StatusTeapot).WriteString(err.Error())
			return writeErr
		}, 418, "a teapot"},
		{"fails", func(fiber.Ctx, error) error { return errors.New("another error") }, 500, "Internal Server Error"},
	} {
		for _, after := range []bool{false, true} {
			calls := 0
			app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
				calls++
				if test.handler == nil {
					return fiber.DefaultErrorHandler(c, err)
				}
				return test.handler(c, err)
			}})
			limits, seen := responseWatcher(t)
			if !after {
				limits = newLimits(t, httplimit.Policy{Limits: perMinute(1000)})
			}
			var outer error
			app.Use(func(c fiber.Ctx) error {
				outer = c.Next()
				return outer
			}, fiberlimit.New(limits))
			app.Get("/", func(fiber.Ctx) error { return errTeapot })
			got := do(t, "GET", "http://"+serveFiber(t, app))
			if got.StatusCode != test.status || got.body != test.body || calls != 1 {
				t.Errorf("%s: client: got %d %q, with %d calls of ErrorHandler", test.name, got.StatusCode, got.body, calls)
			}
			if (outer == nil) != after {
				t.Errorf("%s: outer middleware: got %v", test.name, outer)
			}
			if !after {
				continue
			}
			if answer := <-seen; answer.Status != test.status || int(answer.Bytes) != len(test.body) {
				t.Errorf("%s: policy: got %+v", test.name, answer)
			}
		}
	}
}

// If outer middleware has set header fields and a body, a refusal keeps the fields, and replaces the body.
func TestFiberKeepsHeaders(t *testing.T) {
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.Set("X-Request-Id", "1")
		c.Append("Vary", "Origin")
		c.Cookie(&fiber.Cookie{Name: "a", Value: "b"})
		_, err := c.WriteString("begun")
		if err != nil {
			return err
		}
		return c.Next()
	})
	app.Use(fiberlimit.New(newLimitsWith(t, httplimit.Options{
		Policies: []httplimit.Policy{{Limits: perMinute(1)}},
		Refuse: func(w http.ResponseWriter, _ *http.Request, _ httplimit.Event) {
			w.Header().Add("Vary", "X-Client")
			w.Header().Add("Link", "</a>")
			w.Header().Add("Link", "</b>")
			w.Header().Del("X-Request-Id")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		},
	})))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	address := serveFiber(t, app)
	got := do(t, "GET", "http://"+address)
	if got.body != "hello" || got.Header.Get("X-Request-Id") != "1" || got.Header.Get("RateLimit") == "" {
		t.Errorf("got %q %v, want hello with X-Request-Id 1 and RateLimit", got.body, got.Header)
	}
	got = do(t, "GET", "http://"+address)
	if got.body != "slow down\n" || got.StatusCode != http.StatusTooManyRequests {
		t.Errorf("refusal: got %d %q", got.StatusCode, got.body)
	}
	if header := fmt.Sprint(got.Header["Vary"], got.Header["Link"], got.Header["X-Request-Id"], len(got.Cookies())); header != "[Origin X-Client] [</a> </b>] [] 1" {
		t.Errorf("refusal: got header %s", header)
	}
}

// The middleware does not wait for the end of a body that the application reads as a stream.
func TestFiberStreamsRequests(t *testing.T) {
	for name, limits := range observers(t) {
		app := fiber.New(fiber.Config{StreamRequestBody: true})
		app.Use(fiberlimit.New(limits))
		begun := make(chan string, 1)
		app.Post("/", func(c fiber.Ctx) error {
			first := make([]byte, 5)
			body := c.Request().BodyStream()
			if _, err := io.ReadFull(body, first); err != nil {
				return err
			}
			begun <- string(first)
			rest, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			return c.Send(rest)
		})
		body, client := io.Pipe()
		r, err := http.NewRequest("POST", "http://"+serveFiber(t, app), body)
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan response, 1)
		go func() {
			got, err := exchange(r)
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
		if _, err := io.WriteString(client, "hello"); err != nil {
			t.Fatal(err)
		}
		if got := <-begun; got != "hello" {
			t.Errorf("%s: got %q at the beginning of the body", name, got)
		}
		if _, err := io.WriteString(client, ", world"); err != nil {
			t.Fatal(err)
		}
		client.Close()
		if got := <-answers; got.body != ", world" {
			t.Errorf("%s: got %q, want the rest, \", world\"", name, got.body)
		}
	}
}

// Policies see the size of a stream if it is known in advance.
func TestFiberStreamSizes(t *testing.T) {
	const size = 3 << 20
	limits, seen := responseWatcher(t)
	app := fiber.New()
	app.Use(fiberlimit.New(limits))
	app.Get("/known", func(c fiber.Ctx) error { return c.SendStream(io.LimitReader(neverEnding{}, size), size) })
	app.Get("/unknown", func(c fiber.Ctx) error { return c.SendStream(io.LimitReader(neverEnding{}, size)) })
	address := serveFiber(t, app)
	for path, want := range map[string]int64{"/known": size, "/unknown": 0} {
		got := do(t, "GET", "http://"+address+path)
		if answer := <-seen; answer.Bytes != want || len(got.body) != size {
			t.Errorf("%s: policy: got %d bytes, want %d; the client got %d", path, answer.Bytes, want, len(got.body))
		}
	}
}

// neverEnding is a stream of the letter x.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// The handler can still read a form that the key was taken from.
func TestFiberBodyCanBeReadAgain(t *testing.T) {
	app := fiber.New()
	app.Use(fiberlimit.New(newLimits(t, httplimit.Policy{
		Limits: perMinute(1000),
		Key:    httplimit.KeyFunc(func(r *http.Request) (string, error) { return r.PostFormValue("user"), nil }),
	})))
	app.Post("/", func(c fiber.Ctx) error { return c.SendString(c.FormValue("user")) })
	answer, err := http.PostForm("http://"+serveFiber(t, app), url.Values{"user": {"ann"}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); string(body) != "ann" || err != nil {
		t.Errorf("got %q, %v, want ann", body, err)
	}
}

// All requests that fiber routes are limited, including those that net/http cannot parse.
func TestFiberOddRequests(t *testing.T) {
	for _, uri := range []string{"/%zz", "/%", "/100%/hello"} {
		app := fiber.New()
		app.Use(fiberlimit.New(newLimits(t, httplimit.Policy{Limits: perMinute(1)})))
		app.Use(func(c fiber.Ctx) error { return c.SendString("hello") })
		conn, err := net.Dial("tcp", serveFiber(t, app))
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(conn)
		var statuses []int
		for range 2 {
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", uri)
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%q: got no response: %v", uri, err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			statuses = append(statuses, answer.StatusCode)
		}
		conn.Close()
		if !slices.Equal(statuses, []int{200, 429}) {
			t.Errorf("%q: got %d, want 200 and 429", uri, statuses)
		}
	}
}

func TestFiberSetCostWithoutPolicy(t *testing.T) {
	app := fiber.New()
	app.Get("/", func(c fiber.Ctx) error { return c.SendString(fmt.Sprint(fiberlimit.SetCost(c, 3) == nil)) })
	if got := do(t, "GET", "http://"+serveFiber(t, app)); got.body != "false" {
		t.Errorf("SetCost returned %s", got.body)
	}
}

func TestFiberNil(t *testing.T) {
	defer func() {
		if text, _ := recover().(string); !strings.HasPrefix(text, "fiberlimit: ") {
			t.Errorf("got panic %q", text)
		}
	}()
	fiberlimit.New(nil)
}
