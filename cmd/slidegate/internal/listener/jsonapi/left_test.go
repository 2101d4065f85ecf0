package jsonapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// patience bounds the wait for what must happen.
const patience = 20 * time.Second

// remoteStore decides at once and calls answered before it answers.
type remoteStore struct {
	store.Store
	trips    int
	answered func(rule.Op)
}

func (s *remoteStore) Traits() store.Traits {
	traits := s.Store.Traits()
	traits.RoundTrips = s.trips
	return traits
}

func (s *remoteStore) Apply(ctx context.Context, batch []store.Request) error {
	err := s.Store.Apply(ctx, batch)
	s.answered(batch[0].Op)
	return err
}

// abandoned is a service whose clients leave.
type abandoned struct {
	t        *testing.T
	store    remoteStore
	gate     *gate.Gate
	server   *httptest.Server
	began    chan context.Context // of a request whose body has not been read
	proceed  chan struct{}        // lets it go on
	finished chan struct{}
}

func newAbandoned(t *testing.T, trips int, wrap func(net.Listener) net.Listener) *abandoned {
	t.Helper()
	memory, err := memstore.New(memstore.Options{})
	must(t, err)
	a := &abandoned{
		t: t, store: remoteStore{Store: memory, trips: trips, answered: func(rule.Op) {}},
		began: make(chan context.Context), proceed: make(chan struct{}), finished: make(chan struct{}),
	}
	file, err := config.Parse("policies", []byte("policies:\n  llm: {limits: [10000/24h name=tokens, 50 in-flight ttl=1h name=running]}\n"))
	must(t, err)
	a.gate, err = gate.New(file, &a.store, gate.Options{})
	must(t, err)
	api, err := New(a.gate, Options{})
	must(t, err)
	handler := api.Handler()
	a.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.began <- r.Context()
		<-a.proceed
		handler.ServeHTTP(w, r)
		a.finished <- struct{}{}
	}))
	a.server.Listener = wrap(a.server.Listener)
	a.server.Start()
	t.Cleanup(func() {
		a.server.Close()
		_ = a.gate.Close()
	})
	return a
}

// send sends a request, and returns its connection once the server handles it.
func (a *abandoned) send(path, key string) (*net.TCPConn, context.Context) {
	a.t.Helper()
	conn, err := net.Dial("tcp", a.server.Listener.Addr().String())
	must(a.t, err)
	body := fmt.Sprintf(`{"policy":"llm","key":%q,"cost":20}`, key)
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	must(a.t, err)
	return conn.(*net.TCPConn), receive(a.t, a.began)
}

func receive[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatal("nothing happened")
	}
	return got
}

// isFree reports whether a key holds neither units nor slots.
func (a *abandoned) isFree(key string) bool {
	a.t.Helper()
	v, err := a.gate.Do(a.t.Context(), gate.Peek, gate.Request{Policy: "llm", Key: key, Cost: 1})
	must(a.t, err)
	return v.Decision.Answers[0].Remaining == 10_000 && v.Decision.Answers[1].Remaining == 50
}

// leave closes a connection, with a reset if that is asked for.
func leave(t *testing.T, conn *net.TCPConn, reset bool) {
	t.Helper()
	if reset {
		must(t, conn.SetLinger(0))
	}
	must(t, conn.Close())
}

// Clients that send a request and reset the connection at once, before a store in memory is asked, keep nothing: the response cannot be
// written. (After an orderly close it can, so whether the server notices in time is up to the scheduler.)
func TestClientThatResetsKeepsNothing(t *testing.T) {
	a := newAbandoned(t, 0, func(l net.Listener) net.Listener { return l })
	for _, path := range []string{"/v1/reserve", "/v1/acquire"} {
		for i := range 20 {
			key := fmt.Sprint(path, i)
			conn, _ := a.send(path, key)
			leave(t, conn, true)
			a.proceed <- struct{}{}
			receive(t, a.finished)
			if !a.isFree(key) {
				t.Errorf("%s: client %d kept a reservation", path, i)
			}
		}
	}
}

// What a store took for a client that leaves while the store is asked is cancelled when the answer comes.
func TestClientThatLeavesWhileTheStoreIsAskedKeepsNothing(t *testing.T) {
	for _, trips := range []int{0, 1} {
		for name, reset := range map[string]bool{"close": false, "reset": true} {
			for _, path := range []string{"/v1/reserve", "/v1/acquire"} {
				a := newAbandoned(t, trips, func(l net.Listener) net.Listener { return l })
				taken, left, settled := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
				a.store.answered = func(op rule.Op) {
					switch op {
					case rule.Take:
						taken <- struct{}{}
						<-left
					case rule.Settle:
						settled <- struct{}{}
					}
				}
				conn, ctx := a.send(path, "ann")
				a.proceed <- struct{}{}
				receive(t, taken)
				leave(t, conn, reset)
				receive(t, ctx.Done())
				close(left)
				receive(t, a.finished)
				receive(t, settled)
				if !a.isFree("ann") {
					t.Errorf("%s, %s, %d round trips: a client that left kept a reservation", path, name, trips)
				}
			}
		}
	}
}

// goneListener accepts connections whose clients are gone when the response is written.
type goneListener struct{ net.Listener }

func (l goneListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return goneConn{conn}, err
}

type goneConn struct{ net.Conn }

func (goneConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// What was taken is cancelled if the response cannot be written.
func TestUnsentReservationIsCancelled(t *testing.T) {
	for _, trips := range []int{0, 1} {
		a := newAbandoned(t, trips, func(l net.Listener) net.Listener { return goneListener{l} })
		for _, path := range []string{"/v1/reserve", "/v1/acquire"} {
			conn, _ := a.send(path, path)
			a.proceed <- struct{}{}
			receive(t, a.finished)
			if !a.isFree(path) {
				t.Errorf("%s, %d round trips: a reservation that could not be sent was kept", path, trips)
			}
			leave(t, conn, false)
		}
	}
}
