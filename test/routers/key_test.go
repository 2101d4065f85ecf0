package routers

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/httplimit/echo4limit"
	"github.com/slidegate/slidegate/httplimit/echo5limit"
	"github.com/slidegate/slidegate/httplimit/fiberlimit"
	"github.com/slidegate/slidegate/httplimit/ginlimit"
)

// describeRequest returns the parts of a request that a policy's Key sees.
func describeRequest(r *http.Request) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Method, r.RequestURI, r.URL, r.URL.Path, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.ContentLength, r.TLS != nil)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name != "Content-Length" { // net/http moves it to the field of that name, and both are valid
			fmt.Fprintf(&b, "%s: %q\n", name, r.Header[name])
		}
	}
	return b.String()
}

// In every router, policies see a request as in net/http.
func TestPoliciesSeeTheRequest(t *testing.T) {
	for _, raw := range []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /hello/%41da?a=1&b=%20 HTTP/1.1\r\nHost: example.com:80\r\nX-Forwarded-For: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2\r\n\r\n",
		"POST /login?password=x HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=d\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
		"GET http://example.com/hello/ada HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\n\r\n",
		"GET //hello/../hello/ada HTTP/1.1\r\nHost: localhost\r\nAccept: a\r\nAccept: b\r\n\r\n",
	} {
		var want string
		forAll(t, func(t *testing.T, router router) {
			seen := make(chan string, 1)
			address := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(100), Key: httplimit.KeyFunc(func(r *http.Request) (string, error) {
				seen <- describeRequest(r) + r.RemoteAddr
				return "", nil
			})}), newSite(t))
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, raw)
			got, ok := strings.CutSuffix(<-seen, conn.LocalAddr().String())
			if !ok {
				t.Errorf("%s: got another address than the connection's: %s", router.name, got)
			}
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("got %s\nwant, as in net/http, %s", got, want)
			}
		})
	}
}

// A fragment in the target of a request is not a way around a match: a router that removes it routes to the login, and one that
// does not finds no route.
func TestFragments(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		address := router.serve(t, newLimits(t, httplimit.Policy{Match: "POST /login", Limits: perMinute(3)}), newSite(t))
		logins := 0
		for i := range 10 {
			for _, target := range []string{"/login#%d", "/login?a=b#%d", "/login#%d?a=b", "http://example.com/login#%d"} {
				if status := sendRaw(t, address, "POST "+fmt.Sprintf(target, i)); status == http.StatusUnauthorized {
					logins++
				}
			}
		}
		if logins > 3 {
			t.Errorf("got %d login attempts, want at most 3", logins)
		}
	})
}

// sendRaw sends a request line that net/http would not write, and returns the status of the response.
func sendRaw(t *testing.T, address, line string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", line)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// Keys outlive their request: kept keys must not change with the next request on the same connection.
func TestKeysAreKept(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		var kept []string
		var parts []*http.Request
		address := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(100), Key: httplimit.KeyFunc(func(r *http.Request) (string, error) {
			kept = append(kept, describeRequest(r)) // a copy
			parts = append(parts, r)
			return r.Header.Get("X-Key"), nil
		})}), newSite(t))
		for _, key := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
			r, err := http.NewRequest("GET", "http://"+address+"/hello/"+key+"?key="+key, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Key", key)
			r.Host = key + ".example.com"
			send(t, r)
		}
		for i, r := range parts {
			if got := describeRequest(r); got != kept[i] {
				t.Errorf("request %d: got\n%swant\n%s", i, got, kept[i])
			}
		}
	})
}

// serveUsers serves only GET /users/{name}, with the middleware at that route.
func (r router) serveUsers(t *testing.T, limits *httplimit.Middleware) string {
	t.Helper()
	const path = "/users/:name"
	mux, onChi, onGin, onEcho4, onEcho5, app := http.NewServeMux(), chi.NewRouter(), gin.New(), newEcho4(), newEcho5(), fiber.New()
	ok := func(http.ResponseWriter, *http.Request) {}
	mux.Handle("GET /users/{name}", limits.Wrap(http.HandlerFunc(ok)))
	onChi.With(limits.Wrap).Get("/users/{name}", ok)
	onGin.GET(path, ginlimit.New(limits), func(*gin.Context) {})
	onEcho4.GET(path, func(echo4.Context) error { return nil }, echo4limit.New(limits))
	onEcho5.GET(path, func(*echo5.Context) error { return nil }, echo5limit.New(limits))
	app.Get(path, fiberlimit.New(limits), func(fiber.Ctx) error { return nil })
	if r.name == "fiber" {
		return serveFiber(t, app)
	}
	return serve(t, map[string]http.Handler{"net/http": mux, "chi": onChi, "gin": onGin, "echo4": onEcho4, "echo5": onEcho5}[r.name])
}

// Each name has its own quota.
func TestPathValues(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		var kept []string // they must not change with the next request
		limits := newLimits(t, httplimit.Policy{Limits: perMinute(1), Key: httplimit.KeyFunc(func(r *http.Request) (string, error) {
			name, err := httplimit.ByPathValue("name").Of(r)
			kept = append(kept, name)
			return name, err
		})})
		address := router.serveUsers(t, limits)
		for i, step := range []struct {
			path string
			want int
		}{{"/users/ada", 200}, {"/users/bob", 200}, {"/users/ada", 429}, {"/users/bob", 429}, {"/users/cyd", 200}} {
			if got := do(t, "GET", "http://"+address+step.path); got.StatusCode != step.want {
				t.Errorf("request %d, %s: got %d, want %d", i, step.path, got.StatusCode, step.want)
			}
		}
		if got := strings.Join(kept, " "); got != "ada bob ada bob cyd" {
			t.Errorf("got keys %s", got)
		}
	})
}

// Gin and echo match the route, and with it the name, before all of their middleware.
func TestPathValuesBeforeAllRoutes(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		if router.name != "gin" && router.name != "echo4" && router.name != "echo5" {
			return
		}
		address := router.serve(t, newLimits(t, httplimit.Policy{Limits: perMinute(1), Key: httplimit.ByPathValue("name")}), newSite(t))
		for i, name := range []string{"ada", "bob", "ada"} {
			want := []int{200, 200, 429}[i]
			if got := do(t, "GET", "http://"+address+"/hello/"+name); got.StatusCode != want {
				t.Errorf("request %d, %s: got %d, want %d", i, name, got.StatusCode, want)
			}
		}
	})
}

// A key may be a field of a form. If the router has the body in memory, the handler can still read it.
func TestFormKeys(t *testing.T) {
	forAll(t, func(t *testing.T, router router) {
		limits := newLimits(t, httplimit.Policy{Limits: perMinute(1), Key: httplimit.KeyFunc(func(r *http.Request) (string, error) { return r.PostFormValue("user"), nil })})
		address := router.serve(t, limits, newSite(t))
		for i, step := range []struct {
			user string
			want int
		}{{"ann", 200}, {"ben", 200}, {"ann", 429}} {
			r, err := http.NewRequest("POST", "http://"+address+"/login?password=right", strings.NewReader("user="+step.user))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if got := send(t, r); got.StatusCode != step.want {
				t.Errorf("request %d of %s: got %d, want %d", i, step.user, got.StatusCode, step.want)
			}
		}
	})
}
