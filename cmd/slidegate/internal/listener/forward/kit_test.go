package forward

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/layer/failure"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// start is the initial time of the tests' clock: the beginning of an hour.
const start = 1_800_000_000_000_000

const policies = `
policies:
  site:  {key: "{address}", limits: [3/1m fixed-window name=site], block: [127.0.0.66]}
  login: {match: POST /login, key: "{address}", limits: [1/1h fixed-window name=login]}
  shop:  {match: shop.example/, key: "{header:X-Tenant}", limits: [1/1h fixed-window name=shop]}
  slots: {match: /slots, key: "{address}", limits: [1 in-flight ttl=30s]}
  dark:  {match: /dark, key: "{address}", limits: [1 in-flight ttl=30s], shadow: true}
  watch: {match: /watch, key: "{address}", limits: [1/1h fixed-window], shadow: true}
`

// service is a handler over a store whose clock and health a test controls.
type service struct {
	*Handler
	clock  storetest.Clock
	broken atomic.Bool
	file   *config.File
	inner  store.Store
}

func (s *service) Check(limit *store.Limit) error { return s.inner.Check(limit) }
func (s *service) Traits() store.Traits           { return s.inner.Traits() }

func (s *service) Apply(ctx context.Context, batch []store.Request) error {
	if !s.broken.Load() {
		return s.inner.Apply(ctx, batch)
	}
	err := errors.New("dial tcp 10.1.2.3:6379: connection refused")
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// newService returns a service whose policies have no failure mode, or the mode closed.
func newService(t testing.TB, opts Options, closed bool) *service {
	t.Helper()
	s := &service{}
	s.clock.Set(start)
	var err error
	s.inner, err = memstore.New(memstore.Options{Now: s.clock.Now})
	must(t, err)
	file, err := config.Parse("policies", []byte(policies))
	must(t, err)
	var st store.Store = s
	if closed {
		file.Service.Failure = store.FailClosed
		layered := failure.New(s, failure.Options{Local: memstore.NewDefault()})
		t.Cleanup(layered.Close)
		st = layered
	}
	g, err := gate.New(file, st, gate.Options{})
	must(t, err)
	t.Cleanup(func() { _ = g.Close() })
	s.file = file
	s.Handler, err = New(g, opts)
	must(t, err)
	return s
}

// trust reloads the policies with other trusted proxies; nil means no list of them.
func (s *service) trust(t *testing.T, proxies []netip.Prefix) {
	t.Helper()
	file := *s.file
	file.Service.TrustedProxies = proxies
	must(t, s.gate.Reload(&file))
}

var must = testkit.NoError

func (s *service) add(d time.Duration) { s.clock.Advance(rule.Micros(d.Microseconds())) }

// send sends the request of a proxy: peer is the proxy's address, lines are headers.
func (s *service) send(peer, target string, lines ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = peer
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// traefik returns the headers that Traefik and Caddy send.
func traefik(method, uri, client string, more ...string) []string {
	return append([]string{"X-Forwarded-Method: " + method, "X-Forwarded-Proto: https", "X-Forwarded-Host: example.com",
		"X-Forwarded-Uri: " + uri, "X-Forwarded-For: " + client}, more...)
}

// nginx returns the headers that nginx sends.
func nginx(method, uri, client string, more ...string) []string {
	return append([]string{"Host: example.com", "X-Original-Method: " + method, "X-Original-URI: " + uri, "X-Forwarded-For: " + client}, more...)
}
