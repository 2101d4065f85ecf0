package coalesce_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/leakcheck"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// No goroutine of a test may outlive it.
func TestMain(m *testing.M) { leakcheck.Main(m) }

// noon is a time at which no test's window begins.
const noon = rule.Micros(1_767_268_800_000_123)

func newMemory(t testing.TB, now func() rule.Micros) *memstore.Store {
	t.Helper()
	return testkit.Must(memstore.New(memstore.Options{Now: now}))(t)
}

func newStore(t testing.TB, inner store.Store, opts coalesce.Options) *coalesce.Store {
	t.Helper()
	return coalesce.New(inner, opts)
}

func bind(t testing.TB, limit slidegate.Limit) *store.Limit {
	t.Helper()
	return testkit.Must(adapter.Bind("coalesce", limit))(t)
}

func take(limit *store.Limit, key string, cost int64) store.Request {
	return request(rule.Take, store.Charge{Limit: limit, Key: key, Cost: cost})
}

func request(op rule.Op, charges ...store.Charge) store.Request {
	return store.Request{Op: op, Charges: charges, Answers: make([]rule.Answer, len(charges))}
}

// recorder is a store in memory that records its calls. It is not a SingleTaker, so Apply sees every request.
type recorder struct {
	store.Store
	before func(ctx context.Context, batch []store.Request) error // may wait, fail, or panic

	mu    sync.Mutex
	calls [][]string // the first key of each request of each call
	now   int        // calls under way
	most  int        // the most calls ever under way
}

func newRecorder(t testing.TB, before func(ctx context.Context, batch []store.Request) error) *recorder {
	return &recorder{Store: newMemory(t, func() rule.Micros { return noon }), before: before}
}

func (r *recorder) Apply(ctx context.Context, batch []store.Request) error {
	keys := make([]string, len(batch))
	for i := range batch {
		keys[i] = batch[i].Charges[0].Key
	}
	r.mu.Lock()
	r.calls = append(r.calls, keys)
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now--
		r.mu.Unlock()
	}()
	if r.before != nil {
		if err := r.before(ctx, batch); err != nil {
			return err
		}
	}
	return r.Store.Apply(ctx, batch)
}

// seen returns the calls so far.
func (r *recorder) seen() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]string(nil), r.calls...)
}

// used returns how many units of limit a key has used.
func (r *recorder) used(t testing.TB, limit *store.Limit, key string) int64 {
	t.Helper()
	batch := []store.Request{request(rule.Peek, store.Charge{Limit: limit, Key: key})}
	if err := r.Store.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	return limit.Rule().Quota - batch[0].Answers[0].Remaining
}

// pendingRequest is a request under way.
type pendingRequest struct {
	answer   rule.Answer
	err      error
	panicked any
	done     chan struct{}
}

// send requests one unit of key on a new goroutine, and returns once all goroutines are blocked: the order in which a
// test calls it is the order of arrival. It needs a synctest bubble.
func send(ctx context.Context, st store.Store, limit *store.Limit, key string) *pendingRequest {
	a := &pendingRequest{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer func() { a.panicked = recover() }()
		batch := []store.Request{take(limit, key, 1)}
		batch[0].Err = errors.New("left over from an earlier call")
		err := st.Apply(ctx, batch)
		a.answer, a.err = batch[0].Answers[0], batch[0].Err
		if err != a.err {
			a.err = errors.Join(errors.New("the returned error is not the request's error"), err, a.err)
		}
	}()
	synctest.Wait()
	return a
}

// isDone reports whether the request has returned. It needs a synctest bubble.
func (a *pendingRequest) isDone() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// expect waits for the answer and checks that it is allowed, with the given remaining units.
func (a *pendingRequest) expect(t testing.TB, remaining int64) {
	t.Helper()
	<-a.done
	if a.err != nil || a.panicked != nil || !a.answer.Allowed || a.answer.Granted != 1 || a.answer.Remaining != remaining {
		t.Errorf("got %+v, %v, panic %v; want 1 granted and %d left", a.answer, a.err, a.panicked, remaining)
	}
}
