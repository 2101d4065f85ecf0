package jsonapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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

// policies holds the policies of the tests. The default is login.
const policies = `
default_policy: login
policies:
  login:  {limits: [2/1m]}
  slots:  {limits: [1 in-flight ttl=30s name=slots, 4/1h fixed-window name=hour]}
  two:    {limits: [3/1s fixed-window name=burst, 4/1h fixed-window name=hour]}
  named:  {limits: [1/1m fixed-window name="gruen\""]}
  watch:  {limits: [1/1h fixed-window], shadow: true}
  open:   {limits: [1/1h fixed-window], failure: open}
  closed: {limits: [1/1h fixed-window], failure: closed}
  listed:
    limits: [1/1h fixed-window]
    overrides: [{key: vip, unlimited: true}, {key: minute, limits: [1/1m fixed-window]}]
    allow: ["key:good"]
    block: ["key:bad", 192.0.2.0/24]
  held:   {limits: [10/1m fixed-window hold=30s]}
`

// breakableStore is a store that a test can break. It counts its calls and can retain the last key.
type breakableStore struct {
	store.Store
	err     atomic.Pointer[error]
	applies atomic.Int64
	keeps   atomic.Bool
	last    atomic.Pointer[string]
}

func (b *breakableStore) Apply(ctx context.Context, batch []store.Request) error {
	b.applies.Add(1)
	if b.keeps.Load() {
		key := batch[len(batch)-1].Charges[0].Key
		b.last.Store(&key)
	}
	err := b.err.Load()
	if err == nil {
		return b.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Err = *err
	}
	return *err
}

// Inspect fails as Apply does.
func (b *breakableStore) Inspect(ctx context.Context, limit *store.Limit, group, key string) (rule.State, rule.Micros, error) {
	if err := b.err.Load(); err != nil {
		return rule.State{}, 0, *err
	}
	return b.Store.(store.Inspector).Inspect(ctx, limit, group, key)
}

// someModes is a store with the failure modes open and closed; requests in other modes fail if the store does.
type someModes struct {
	store.Store
	layered store.Store
}

// Unwrap returns the failure layer, so that limits get their modes.
func (s someModes) Unwrap() store.Store { return s.layered }

func (s someModes) Apply(ctx context.Context, batch []store.Request) error {
	if mode := batch[0].Charges[0].Limit.Mode(); mode == store.FailOpen || mode == store.FailClosed {
		return s.layered.Apply(ctx, batch)
	}
	return s.Store.Apply(ctx, batch)
}

// service is the API on a real server.
type service struct {
	t             testing.TB
	clock         storetest.Clock
	store         *breakableStore
	gate          *gate.Gate
	api           *API
	public, admin *httptest.Server
}

func newService(t testing.TB, opts Options) *service {
	t.Helper()
	s := &service{t: t}
	s.clock.Set(start)
	memory, err := memstore.New(memstore.Options{Now: s.clock.Now})
	must(t, err)
	s.store = &breakableStore{Store: memory}
	layered := failure.New(s.store, failure.Options{Local: memstore.NewDefault()})
	t.Cleanup(layered.Close)
	file, err := config.Parse("policies", []byte(policies))
	must(t, err)
	s.gate, err = gate.New(file, someModes{s.store, layered}, gate.Options{})
	must(t, err)
	s.api, err = New(s.gate, opts)
	must(t, err)
	s.public, s.admin = httptest.NewServer(s.api.Handler()), httptest.NewServer(s.api.AdminHandler())
	t.Cleanup(func() {
		s.public.Close()
		s.admin.Close()
		_ = s.gate.Close()
	})
	return s
}

var must = testkit.NoError

func (s *service) add(d time.Duration) { s.clock.Advance(rule.Micros(d.Microseconds())) }

var errBroken = errors.New("dial tcp 10.1.2.3:6379: connection refused")

func (s *service) fail(err error) {
	if err == nil {
		s.store.err.Store(nil)
		return
	}
	s.store.err.Store(&err)
}

// reply is a response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// post sends JSON.
func (s *service) post(path, body string) reply {
	s.t.Helper()
	return s.send(http.MethodPost, path, body, "application/json")
}

// send sends a request to the server that serves the path, and checks the response against the document.
func (s *service) send(method, path, body, contentType string) reply {
	s.t.Helper()
	server := s.public
	if _, ok := admin[strings.Split(path, "?")[0]]; ok {
		server = s.admin
	}
	got := s.sendTo(server, method, path, body, contentType)
	checkDocumented(s.t, method, path, body, got)
	return got
}

func (s *service) sendTo(server *httptest.Server, method, path, body, contentType string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	must(s.t, err)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := http.DefaultClient.Do(r)
	must(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(s.t, err)
	return reply{response.StatusCode, response.Header, string(text)}
}

// want checks the status and the body, which ends in a line break.
func (a reply) want(t testing.TB, status int, body string) reply {
	t.Helper()
	if body != "" {
		body += "\n"
	}
	if a.status != status || a.body != body {
		t.Errorf("got  %d %swant %d %s", a.status, a.body, status, body)
	}
	return a
}

// wantHeaders checks the headers RateLimit, RateLimit-Policy and Retry-After.
func (a reply) wantHeaders(t testing.TB, limit, policy, retry string) {
	t.Helper()
	for name, want := range map[string]string{"RateLimit": limit, "RateLimit-Policy": policy, "Retry-After": retry} {
		if got := strings.Join(a.header.Values(name), "|"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// plainDecision returns a decision of one limit, made by the store.
func plainDecision(allowed bool, policy, limit string, quota, remaining, granted, retry, reset, at int64) string {
	return fmt.Sprintf(`{"allowed":%v,"policy":%q,"limit":%q,"quota":%d,"remaining":%d,"granted":%d,"retry_after_us":%d,"reset_after_us":%d,`+
		`"at_us":%d,"by":"limits","flags":[],"shadow":false,"refused":%v}`,
		allowed, policy, limit, quota, remaining, granted, retry, reset, at, !allowed)
}
