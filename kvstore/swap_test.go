package kvstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A decision takes a read and a swap, or only a swap if this process was the last to write. A decision that changes nothing takes a
// read.
func TestRoundTrips(t *testing.T) {
	engine := &kvtest.Table{}
	s := newStore(t, engine, kvstore.Options{})
	expect := func(what string, gets, swaps int, do func()) {
		t.Helper()
		before := engine.Counts()
		do()
		after := engine.Counts()
		if after.Gets-before.Gets != gets || after.Swaps-before.Swaps != swaps {
			t.Errorf("%s: %d reads and %d swaps, want %d and %d", what, after.Gets-before.Gets, after.Swaps-before.Swaps, gets, swaps)
		}
	}
	expect("a new key", 1, 1, func() { take(t, s, "key", true) })
	expect("a key that this process wrote last", 0, 1, func() { take(t, s, "key", true) })
	expect("a peek", 1, 0, func() { apply(t, s, rule.Peek, "key") })
	expect("after a peek", 0, quota-2, func() {
		for range quota - 2 {
			take(t, s, "key", true)
		}
	})
	expect("a refusal", 1, 0, func() { take(t, s, "key", false) })
	other := newStore(t, engine, kvstore.Options{})
	expect("another process", 1, 1, func() { apply(t, other, rule.Reset, "key") })
	expect("a full key after a reset by another process", 1, 1, func() { take(t, s, "key", true) })
	expect("a charge by another process", 1, 2, func() { take(t, other, "key", true) })
	expect("after a charge by another process", 1, 2, func() { take(t, s, "key", true) })
	expect("soon after that", 1, 1, func() { take(t, s, "key", true) })
	forgetful := newStore(t, engine, kvstore.Options{Remember: -1})
	expect("without memory", 2, 2, func() {
		take(t, forgetful, "other key", true)
		take(t, forgetful, "other key", true)
	})
}

// A process that changes an entry many times in a row reads it now and then, so that others get their turn.
func TestLongStreaksRead(t *testing.T) {
	engine := &kvtest.Table{}
	limiter := hourlyLimiter(t, newStore(t, engine, kvstore.Options{}), 1_000_000)
	const decisions = 10 * (kvstore.StreakForTest + 1)
	for range decisions {
		if _, err := limiter.Allow(t.Context(), "key"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := engine.Counts(), (kvtest.Counts{Gets: 10, Swaps: decisions}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A refusal is never based on a remembered entry alone: another process may have refunded units.
func TestRefusalsAreRead(t *testing.T) {
	engine := &kvtest.Table{}
	one, other := newStore(t, engine, kvstore.Options{}), newStore(t, engine, kvstore.Options{})
	for range quota {
		take(t, one, "key", true)
	}
	apply(t, other, rule.Reset, "key")
	if a := apply(t, one, rule.Peek, "key"); a.Remaining != quota {
		t.Errorf("a peek reports that %d remain, want %d", a.Remaining, quota)
	}
	for range quota {
		take(t, other, "key", true)
	}
	apply(t, one, rule.Reset, "key")
	take(t, other, "key", true)
}

// vagueEngine is an engine whose Swap does not report the new revision.
type vagueEngine struct{ *kvtest.Table }

func (v vagueEngine) Swap(ctx context.Context, name string, value []byte, revision uint64, keep time.Duration) (uint64, error) {
	_, err := v.Table.Swap(ctx, name, value, revision, keep)
	return 0, err
}

// Only entries that this process wrote are remembered, and none if the engine does not report revisions. Entries that were only
// read are not.
func TestReadEntriesAreNotRemembered(t *testing.T) {
	engine := vagueEngine{&kvtest.Table{}}
	s := newStore(t, engine, kvstore.Options{})
	for i := range 5 {
		take(t, s, "key", true)
		apply(t, s, rule.Peek, "key")
		if got, want := engine.Counts(), (kvtest.Counts{Gets: 2*i + 2, Swaps: i + 1}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if n := s.RememberedForTest(); n != 0 {
		t.Errorf("%d entries are remembered", n)
	}
	other := newStore(t, engine.Table, kvstore.Options{})
	apply(t, other, rule.Peek, "key")
	if n := other.RememberedForTest(); n != 0 {
		t.Errorf("%d entries are remembered although they were only read", n)
	}
}

// If the engine has forgotten a remembered entry, the next decision starts from what the engine has.
func TestForgottenByTheEngine(t *testing.T) {
	engine := &kvtest.Table{}
	s := newStore(t, engine, kvstore.Options{})
	take(t, s, "key", true)
	take(t, s, "key", true)
	engine.Clear()
	if a := apply(t, s, rule.Take, "key"); a.Remaining != quota-1 {
		t.Errorf("%d remain, want %d", a.Remaining, quota-1)
	}
	if got := used(t, engine, "key"); got != 1 {
		t.Errorf("%d units are used, want 1", got)
	}
}

// Entries expire in the engine when they are no longer needed and the grace period is over.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &kvtest.Table{}
		s := newStore(t, engine, kvstore.Options{Grace: 10 * time.Minute})
		testkit.Pass(30 * time.Minute)
		take(t, s, "key", true)
		testkit.Pass(99 * time.Minute) // the unit counts for what is left of its hour and for the next one
		if len(engine.Names()) == 0 {
			t.Error("the entry is gone before the grace period is over")
		}
		testkit.Pass(2 * time.Minute)
		if names := engine.Names(); len(names) != 0 {
			t.Errorf("the entries %q are still there", names)
		}
		take(t, s, "key", true)
	})
}

// If the outcome of a swap is unknown, the request fails. Only the engine shows whether it was carried out.
func TestUnknownOutcomeIsAnError(t *testing.T) {
	lost := errors.New("the connection was lost")
	fail := func(_ context.Context, call kvtest.Call) error {
		if call.Swap {
			return lost
		}
		return nil
	}
	for name, c := range map[string]struct {
		engine *kvtest.Table
		used   int64
	}{
		"not written": {&kvtest.Table{Before: fail}, 0},
		"written":     {&kvtest.Table{After: fail}, 1},
	} {
		s := newStore(t, c.engine, kvstore.Options{})
		batch := []store.Request{request(rule.Take, "key")}
		if err := s.Apply(t.Context(), batch); !errors.Is(err, lost) || batch[0].Err == nil {
			t.Errorf("%s: got error %v, want %v", name, err, lost)
		}
		if got := c.engine.Counts().Swaps; got > 1 {
			t.Errorf("%s: the swap was sent %d times, want at most 1", name, got)
		}
		if got := used(t, c.engine, "key"); got != c.used {
			t.Errorf("%s: %d units are used, want %d", name, got, c.used)
		}
		c.engine.Before, c.engine.After = nil, nil
		take(t, s, "key", true)
		if got := used(t, c.engine, "key"); got != c.used+1 {
			t.Errorf("%s: %d units are used later, want %d", name, got, c.used+1)
		}
	}
}

// A swap whose outcome is unknown may arrive much later. It then finds another revision, unless nothing has changed.
func TestLateSwapFindsAnotherRevision(t *testing.T) {
	for _, changed := range []bool{false, true} {
		engine := &kvtest.Table{}
		var late kvtest.Call
		s := newStore(t, engine, kvstore.Options{})
		take(t, s, "key", true)
		engine.Before = func(_ context.Context, call kvtest.Call) error {
			if late = call; call.Swap {
				return context.DeadlineExceeded
			}
			return nil
		}
		if err := s.Apply(t.Context(), []store.Request{request(rule.Take, "key")}); err == nil {
			t.Fatal("no error")
		}
		engine.Before = nil
		want := int64(2)
		if changed {
			take(t, s, "key", true)
			take(t, s, "key", true)
			want = 3
		}
		_, err := engine.Swap(t.Context(), late.Name, late.Value, late.Revision, late.Keep)
		if errors.Is(err, kvstore.ErrOutdated) != changed {
			t.Errorf("changed in the meantime: %v: the late swap returned %v", changed, err)
		}
		if got := used(t, engine, "key"); got != want {
			t.Errorf("changed in the meantime: %v: %d units are used, want %d", changed, got, want)
		}
		take(t, s, "key", true)
		if got := used(t, engine, "key"); got != want+1 {
			t.Errorf("changed in the meantime: %v: %d units are used at the end, want %d", changed, got, want+1)
		}
	}
}

// Attempts are bounded by their number, and by the timeout.
func TestAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conflict := fmt.Errorf("always: %w", kvstore.ErrOutdated)
		engine := &kvtest.Table{Before: func(_ context.Context, call kvtest.Call) error {
			if call.Swap {
				return conflict
			}
			return nil
		}}
		err := newStore(t, engine, kvstore.Options{}).Apply(t.Context(), []store.Request{request(rule.Take, "key")})
		if err == nil || !strings.Contains(err.Error(), "gave up after 256 attempts") || engine.Counts().Gets != 256 {
			t.Errorf("after %d reads: %v", engine.Counts().Gets, err)
		}
		engine.Before = func(_ context.Context, call kvtest.Call) error {
			if testkit.Delay(10 * time.Millisecond); call.Swap {
				return conflict
			}
			return nil
		}
		begun := time.Now()
		err = newStore(t, engine, kvstore.Options{Timeout: 100 * time.Millisecond}).Apply(t.Context(), []store.Request{request(rule.Take, "key")})
		if took := time.Since(begun); !errors.Is(err, context.DeadlineExceeded) || took > 120*time.Millisecond {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// The number of remembered entries is bounded.
func TestRememberedEntriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that a slow machine does not exceed the timeout
		engine := &kvtest.Table{}
		s := newStore(t, engine, kvstore.Options{Remember: 2048})
		for i := range 10_000 {
			take(t, s, fmt.Sprint("key ", i), true)
		}
		if n := s.RememberedForTest(); n > 2048 || n < 1024 {
			t.Errorf("%d entries are remembered, want 1,024 to 2,048", n)
		}
		forgetful := newStore(t, engine, kvstore.Options{Remember: -1})
		take(t, forgetful, "key 0", true)
		if n := forgetful.RememberedForTest(); n != 0 {
			t.Errorf("%d entries are remembered, want none", n)
		}
	})
}
