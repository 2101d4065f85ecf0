package refusals_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/answering"
	"github.com/slidegate/slidegate/internal/layer/refusals"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// TestContractWithoutHits checks that, as long as nothing is answered from memory, the layer behaves like its inner
// store. Here every refusal is too old by the time it is looked up.
func TestContractWithoutHits(t *testing.T) {
	for _, quick := range []bool{true, false} {
		t.Run(map[bool]string{true: "over a SingleTaker", false: "over another"}[quick], func(t *testing.T) {
			storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
				var looks atomic.Int64
				var inner store.Store = memory(t, clock)
				if !quick {
					inner = struct{ store.Store }{inner}
				}
				return layered(t, inner, refusals.Options{MaxAge: 1, Now: func() time.Duration { return time.Duration(looks.Add(1)) }})
			})
		})
	}
}

// TestContractWithHits runs the whole suite with refusals from memory. These carry a flag, and their fields are those of
// the store's last answer, so they differ from the reference's. Each is therefore compared with the store's current
// answer, as far as the layer promises it, and the suite receives the store's answer.
func TestContractWithHits(t *testing.T) {
	var hits atomic.Int64
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		inner := memory(t, clock)
		return &truthfulStore{t: t, clock: clock, inner: inner, hits: &hits, Store: layered(t, inner, refusals.Options{
			MaxAge: age, Now: (&forwardClock{clock: clock}).now,
		})}
	})
	if hits.Load() < 1000 {
		t.Fatalf("only %d answers came from memory", hits.Load())
	}
}

const age = time.Hour

// forwardClock is a local clock for the suite, whose own clock is sometimes set back. A local clock is not set back, but
// cannot know how long the store's clock will be wrong either, which MaxAge bounds. So that much time passes here.
type forwardClock struct {
	clock *storetest.Clock
	mu    sync.Mutex
	last  rule.Micros
	sum   time.Duration
}

func (f *forwardClock) now() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if by := now - f.last; by < 0 || by >= rule.Micros(age.Microseconds()) {
		f.sum += age
	} else {
		f.sum += time.Duration(by) * time.Microsecond
	}
	f.last = now
	return f.sum
}

// truthfulStore replaces answers from memory by the store's answers.
type truthfulStore struct {
	*refusals.Store
	t     testing.TB
	clock *storetest.Clock
	inner store.Store
	hits  *atomic.Int64
}

func (s *truthfulStore) Apply(ctx context.Context, batch []store.Request) error {
	before := s.clock.Now()
	err := s.Store.Apply(ctx, batch)
	for i := range batch {
		if r := &batch[i]; r.Err == nil && r.Answers[0].Flags&rule.Cached != 0 {
			s.correct(before, r.Group, r.Charges, r.Answers)
		}
	}
	return err
}

func (s *truthfulStore) TakeSingle(ctx context.Context, limit *store.Limit, key string, cost int64) (
	allowed bool, flags rule.Flags, remaining int64, after, resetAfter, at rule.Micros, err error,
) {
	before := s.clock.Now()
	a := make([]rule.Answer, 1)
	got := &a[0]
	got.Allowed, got.Flags, got.Remaining, got.RetryAfter, got.ResetAfter, got.At, err = s.Store.TakeSingle(ctx, limit, key, cost)
	if err == nil && got.Flags&rule.Cached != 0 {
		s.correct(before, "", []store.Charge{{Limit: limit, Key: key, Cost: cost}}, a)
	}
	return a[0].Allowed, a[0].Flags, a[0].Remaining, a[0].RetryAfter, a[0].ResetAfter, a[0].At, err
}

// correct compares answers from memory with the store's, and replaces them. Where the suite moves the clock while other
// goroutines send requests, neither this nor the suite can compare anything, so only the flag is removed.
func (s *truthfulStore) correct(before rule.Micros, group string, charges []store.Charge, got []rule.Answer) {
	s.t.Helper()
	s.hits.Add(1)
	truth, err := apply(context.Background(), s.inner, rule.Peek, group, charges...)
	if err != nil {
		s.t.Error(err)
	}
	if _, allowed := answering.Deciding(got); allowed {
		s.t.Errorf("got an admission from memory: %+v", got)
	}
	still := s.clock.Now() == before
	for i := range got {
		g, want := &got[i], &truth[i]
		g.Flags &^= rule.Cached
		if !still {
			continue
		}
		if !g.Allowed && want.Allowed || g.RetryAfter > want.RetryAfter || g.ResetAfter > want.ResetAfter {
			s.t.Errorf("from memory:\n got   %+v\n want %+v", *g, *want)
		}
		*g = *want
	}
}
