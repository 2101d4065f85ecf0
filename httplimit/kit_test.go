package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// play is a middleware in front of a handler, with its own clock.
type play struct {
	t       tester
	clock   storetest.Clock
	limiter *slidegate.Limiter
	mu      sync.Mutex // guards events, some of which come from other goroutines
	events  []Event
	served  int
	limits  *Middleware
	handler http.Handler
}

// tester is the part of a testing.TB that a play needs, which a rapid.T has too.
type tester interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
	Fatalf(string, ...any)
}

// noon is when every play begins, at the start of a minute and of an hour.
const noon = rule.Micros(1_767_614_400_000_000)

// newPlay puts a middleware in front of a handler that returns 200, or of handler if it is not nil.
func newPlay(t tester, opts Options, handler http.HandlerFunc, limits ...slidegate.Limit) *play {
	t.Helper()
	p := &play{t: t}
	p.clock.Set(noon)
	store, err := memstore.New(memstore.Options{Now: p.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	return p.over(store, opts, handler, limits...)
}

// limiterOn returns a limiter of limits, or one for limits per call if there are none.
func limiterOn(store store.Store, limits []slidegate.Limit) (*slidegate.Limiter, error) {
	if len(limits) == 0 {
		return slidegate.New(store)
	}
	return slidegate.New(store, limits...)
}

// over is newPlay on the test's own store.
func (p *play) over(store store.Store, opts Options, handler http.HandlerFunc, limits ...slidegate.Limit) *play {
	p.t.Helper()
	var err error
	if p.limiter, err = limiterOn(store, limits); err != nil {
		p.t.Fatal(err)
	}
	hook := opts.OnDecision
	opts.OnDecision = func(r *http.Request, e Event) {
		p.mu.Lock()
		p.events = append(p.events, e)
		p.mu.Unlock()
		if hook != nil {
			hook(r, e)
		}
	}
	m, err := New(p.limiter, opts)
	if err != nil {
		p.t.Fatal(err)
	}
	p.limits = m
	p.t.Cleanup(func() { // it ends a probe under way
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = m.Drain(ctx)
	})
	p.handler = m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.served++
		if handler != nil {
			handler(w, r)
		}
	}))
	return p
}

// from sends a request as a client of the given address.
func (p *play) from(address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = address + ":1234"
	return p.do(r)
}

func (p *play) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	return w
}

// wait advances the clock.
func (p *play) wait(d time.Duration) { p.clock.Advance(rule.Micros(d.Microseconds())) }

// last returns the last event.
func (p *play) last() Event {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) == 0 {
		p.t.Fatal("got no event, want at least one")
	}
	return p.events[len(p.events)-1]
}

// want sends one request per status, and checks the statuses.
func (p *play) want(send func() *httptest.ResponseRecorder, statuses ...int) {
	p.t.Helper()
	for i, status := range statuses {
		if got := send().Code; got != status {
			p.t.Fatalf("request %d: got status %d, want %d", i+1, got, status)
		}
	}
}

// broken is a store that is unreachable.
type broken struct{ requests int }

var errBroken = errors.New("the store is unreachable")

func (b *broken) Apply(context.Context, []store.Request) error { b.requests++; return errBroken }
func (b *broken) Check(*store.Limit) error                     { return nil }
func (b *broken) Traits() store.Traits {
	return store.Traits{Name: "broken", MaxCharges: 16}
}
