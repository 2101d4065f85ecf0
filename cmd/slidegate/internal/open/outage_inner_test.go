package open

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// faultyStore is a store that seems to be remote, and fails as a test says.
type faultyStore struct {
	store.Store
	down atomic.Bool
	slow atomic.Bool // the key "slow" gets no answer
}

func (f *faultyStore) Traits() store.Traits {
	traits := f.Store.Traits()
	traits.Name, traits.RoundTrips = "faulty", 1
	return traits
}

func (f *faultyStore) Apply(ctx context.Context, batch []store.Request) error {
	var err error
	switch {
	case f.down.Load():
		err = errors.Join(store.ErrDown, errors.New("READONLY"))
	case f.slow.Load() && batch[0].Charges[0].Key == "slow":
		<-ctx.Done()
		err = ctx.Err()
	default:
		return f.Store.Apply(ctx, batch)
	}
	for i := range batch {
		batch[i].Err = err
	}
	return err
}

// outageRig is a faulty store with all layers and a log without times.
type outageRig struct {
	t      *testing.T
	store  *faultyStore
	opened *Opened
	log    bytes.Buffer
}

func newOutageRig(t *testing.T) *outageRig {
	r := &outageRig{t: t, store: &faultyStore{Store: memstore.NewDefault()}, opened: &Opened{}}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	if err := r.opened.putLayers(r.store, &Options{Logger: log, Watch: true, Modes: func() string { return "local, mostly" }}); err != nil {
		t.Fatal(err)
	}
	return r
}

// allow makes n decisions about a key in a mode.
func (r *outageRig) allow(mode store.Mode, key string, n int) {
	r.t.Helper()
	limiter, err := slidegate.New(store.In(r.opened.Store, mode), slidegate.PerHour(100))
	if err != nil {
		r.t.Fatal(err)
	}
	for range n {
		if _, err := limiter.Allow(context.Background(), key); err != nil {
			r.t.Errorf("key %s: %v", key, err)
		}
	}
}

// logged compares the lines since the last call: each must contain all of its words, separated by "|".
func (r *outageRig) logged(want ...string) {
	r.t.Helper()
	synctest.Wait()
	got := strings.Split(strings.TrimSuffix(r.log.String(), "\n"), "\n")
	if r.log.Len() == 0 {
		got = nil
	}
	r.log.Reset()
	matches := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		for word := range strings.SplitSeq(want[i], "|") {
			matches = matches && strings.Contains(got[i], word)
		}
	}
	if !matches {
		r.t.Errorf("got the lines\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (r *outageRig) close() {
	if err := r.opened.Close(); err != nil {
		r.t.Error(err)
	}
}

// An outage is found without requests. It has one line at its beginning, which says why and what decides, and one at its end, with its
// length and the decisions of each mode. A service that stops afterwards says nothing more about it.
func TestOutageIsLoggedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOutageRig(t)
		r.allow(store.FailLocal, "ann", 1)
		testkit.Pass(5 * time.Second)
		r.logged()
		if err := r.opened.Health(); err != nil {
			t.Errorf("before the outage: Health returns %v, want nil", err)
		}
		r.store.down.Store(true)
		testkit.Pass(2500 * time.Millisecond) // a probe may be left out once, because another call was answered
		r.logged("level=ERROR|decided without it|store=faulty|local, mostly|READONLY")
		if r.opened.Health() == nil {
			t.Error("in the outage: Health returns nil")
		}
		r.allow(store.FailLocal, "ann", 3)
		r.allow(store.FailClosed, "ann", 2)
		testkit.Pass(time.Minute)
		r.logged()
		r.store.down.Store(false)
		testkit.Pass(1500 * time.Millisecond)
		r.logged("level=ERROR|the store decides again|lasted=1m|decided.local=3 decided.closed=2")
		if err := r.opened.Health(); err != nil {
			t.Errorf("after the outage: Health returns %v, want nil", err)
		}
		r.close()
		r.logged()
	})
}

// Calls that are late while the store answers others are summed in a warning, at most every ten seconds, and the rest is logged at the end.
func TestLateCallsAreLoggedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOutageRig(t)
		r.store.slow.Store(true)
		r.allow(store.FailLocal, "slow", 2)
		r.allow(store.FailClosed, "slow", 1)
		r.logged()
		testkit.Pass(11 * time.Second)
		r.logged("level=WARN|still being called|decided.local=2 decided.closed=1|first_error=")
		r.allow(store.FailLocal, "slow", 4)
		testkit.Pass(11 * time.Second)
		r.logged("level=WARN|still being called|decided.local=4")
		testkit.Pass(time.Minute)
		r.logged()
		r.allow(store.FailLocal, "slow", 1)
		r.close()
		r.logged("level=WARN|did not answer some requests|decided.local=1")
	})
}

// A service that stops during an outage logs what was decided without the store.
func TestStopDuringAnOutageIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newOutageRig(t)
		r.store.down.Store(true)
		r.allow(store.FailOpen, "ann", 4)
		r.logged("level=ERROR|decided without it")
		testkit.Pass(30 * time.Second)
		r.close()
		r.logged("level=ERROR|the service stops|lasted=30s decided.open=4")
	})
}

// An outage of several nodes has one line at the first, and one when all are back.
func TestOutageOfSeveralNodes(t *testing.T) {
	var log bytes.Buffer
	o := &outages{log: slog.New(slog.NewTextHandler(&log, nil)), store: "cluster", modes: func() string { return "local" }}
	for _, err := range []error{errors.New("node 1"), errors.New("node 2"), nil} {
		o.change(err)
	}
	if err := o.close(); err != nil {
		t.Error(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "node 1") || !strings.Contains(got, "decides again") {
		t.Errorf("got\n%swant a line about node 1 and one for the end", got)
	}
}
