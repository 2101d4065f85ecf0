package proxy_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/connlimit"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for events that should happen soon.
const patience = 20 * time.Second

// rig is a proxy on a loopback port, in front of an application.
type rig struct {
	file  *config.File
	t     testing.TB
	proxy *proxy.Proxy
	gate  *gate.Gate
	at    string // host and port
	clock storetest.Clock
	stop  func() // stops it, and waits until it has stopped
	http  *http.Client
}

// settings configures a rig; all fields but the policies may be zero.
type settings struct {
	policies []config.Policy
	trusted  []netip.Prefix
	opts     proxy.Options
	serve    serveSettings
	store    store.Store // nil means one in memory
}

// serveSettings configures how a rig is served. The zero value has no TLS, and bounds that no test reaches.
type serveSettings struct {
	secure                  *tls.Config
	drain                   time.Duration
	connections, perAddress int
}

// policy returns a policy with the address as its key.
func policy(name, match string, limits ...string) config.Policy {
	p := config.Policy{Name: name, Match: config.Routes(match)}
	p.Key, _ = fields.ParseTemplate("{address}")
	for _, text := range limits {
		limit, err := slidegate.ParseLimit(text)
		if err != nil {
			panic(err)
		}
		p.Limits = append(p.Limits, limit)
	}
	return p
}

// unlimitedSettings returns settings with a policy that never refuses.
func unlimitedSettings() settings {
	return settings{policies: []config.Policy{policy("plenty", "", "1000000/1h")}}
}

// application starts a server for the handler.
func application(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.DisableGeneralOptionsHandler = true
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newRig(t testing.TB, to string, s settings) *rig {
	t.Helper()
	r := &rig{t: t}
	r.clock.Set(1_800_000_000_000_000) // at the start of an hour
	store := s.store
	if store == nil {
		memory, err := memstore.New(memstore.Options{Now: r.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		store = memory
	}
	file := &config.File{Policies: s.policies, Service: config.Service{TrustedProxies: s.trusted}}
	var err error
	r.file = file
	if r.gate, err = gate.New(file, store, gate.Options{}); err != nil {
		t.Fatal(err)
	}
	s.opts.To = parse(t, to)
	if r.proxy, err = proxy.New(r.gate, s.opts); err != nil {
		t.Fatal(err)
	}
	r.serve(s.serve)
	return r
}

func (r *rig) serve(opts serveSettings) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.at = inner.Addr().String()
	most := cmp.Or(opts.connections, 1000)
	listener := connlimit.New(inner, connlimit.Options{
		Max: most, MaxPerAddress: cmp.Or(opts.perAddress, most),
		Exempt: func(addr netip.Addr) bool {
			is, listed := r.gate.Trusts(addr)
			return is || !listed && addr.IsLoopback()
		},
	})
	server := r.proxy.NewServer(opts.secure, nil)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	transport := &http.Transport{DisableCompression: true}
	r.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(opts.drain, patience))
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			r.t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			r.t.Errorf("Serve: %v", err)
		}
		r.proxy.Close()
		_ = r.gate.Close()
	}
	r.t.Cleanup(func() {
		transport.CloseIdleConnections()
		r.stop()
	})
}

// send sends a request and returns the response, whose body is read.
func (r *rig) send(method, path string, header ...string) *response {
	r.t.Helper()
	request, err := http.NewRequest(method, "http://"+r.at+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	return r.do(request)
}

type response struct {
	*http.Response
	body string
}

func (r *rig) do(request *http.Request) *response {
	r.t.Helper()
	got, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &response{got, string(text)}
}

// sendRaw sends bytes verbatim and returns the response.
func (r *rig) sendRaw(text string) *response {
	r.t.Helper()
	conn := r.dial()
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	got, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		r.t.Fatalf("no response to %.80q: %v", text, err)
	}
	defer got.Body.Close()
	body, _ := io.ReadAll(got.Body)
	return &response{got, string(body)}
}

// dial connects to the proxy. The connection is closed at the end of the test.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// echo writes what it receives.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s host=%s xff=%s proto=%s xfh=%s real=%s fwd=%s", r.Method, r.RequestURI, r.Host, strings.Join(r.Header["X-Forwarded-For"], "|"),
		r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Real-Ip"), r.Header.Get("Forwarded"))
}

// receive receives a value, and fails the test if none arrives soon.
func receive[T any](t testing.TB, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("%s: not within %v", what, patience)
	}
	return got
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// realMemory returns a store in memory that uses the machine's clock.
func realMemory(t testing.TB) store.Store {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return memory
}
