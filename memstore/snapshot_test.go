package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func snapshot(t testing.TB, store *memstore.Store) []byte {
	t.Helper()
	var saved bytes.Buffer
	if err := store.Snapshot(&saved); err != nil {
		t.Fatal(err)
	}
	return saved.Bytes()
}

// A restored store decides as the saved one would have.
func TestSnapshotForgetsNothing(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(5) {
		t.Run(limit.String(), func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := open(t, memstore.Options{Now: clock.Now})
			before := newLimiter(t, store, limit)
			random := rand.New(rand.NewPCG(1, 0))
			unit := max(1, limit.Quota/5)
			for range 20_000 {
				allow(t, before, fmt.Sprint(random.IntN(1500)), unit*random.Int64N(3))
				clock.Advance(rule.Micros(random.Int64N(max(2, limit.Window.Microseconds()/20_000))))
			}
			saved := snapshot(t, store)
			clock.Advance(rule.Micros(limit.Window.Microseconds()) / 3) // the restart takes time
			restored, err := memstore.Restore(bytes.NewReader(saved), memstore.Options{Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			after := newLimiter(t, restored, limit)
			refused := 0
			for i := range 5000 {
				want, got := allow(t, before, fmt.Sprint(i), 2*unit), allow(t, after, fmt.Sprint(i), 2*unit)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("key %d: %+v, want %+v", i, got, want)
				}
				if !got.Allowed {
					refused++
				}
			}
			if limit.Window > time.Second && refused == 0 {
				t.Error("nothing was refused: the test proves nothing")
			}
		})
	}
}

// Keys that a full store had to forget must not get their quota back through a snapshot, in a store of any size.
func TestSnapshotKeepsForgottenKeys(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range limitsOfAllForms(3) {
		for _, size := range []int64{256 << 10, 64 << 20} {
			clock := storetest.NewClock(1_767_225_600_000_000)
			store := openTiny(t, memstore.Options{Now: clock.Now})
			limiter := newLimiter(t, store, limit)
			for i := range 9000 { // all keys use up their quota
				for allow(t, limiter, fmt.Sprint(i), max(1, limit.Quota/3)).Allowed {
				}
			}
			restored, err := memstore.Restore(bytes.NewReader(snapshot(t, store)), memstore.Options{MaxBytes: size, Now: clock.Now})
			if err != nil {
				t.Fatal(err)
			}
			after := newLimiter(t, restored, limit)
			for i := range 9000 {
				// Some keys may have their last unit left, which the floor had refused them; none has three.
				if allow(t, after, fmt.Sprint(i), limit.Quota).Allowed {
					t.Fatalf("%s: key %d has its quota back in a store of %d", limit, i, size)
				}
			}
		}
	}
}

func TestRestoreIntoLessSpace(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := open(t, memstore.Options{Now: clock.Now})
	limiter := newLimiter(t, store, sliding(1, time.Minute))
	for i := range 20_000 {
		allow(t, limiter, fmt.Sprint(i), 1)
	}
	small, err := memstore.Restore(bytes.NewReader(snapshot(t, store)), memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	after := newLimiter(t, small, sliding(1, time.Minute))
	for i := range 20_000 {
		if allow(t, after, fmt.Sprint(i), 1).Allowed {
			t.Fatalf("key %d was admitted again", i)
		}
	}
}

// With the real clock too, a restart forgets nothing: times are saved as wall times.
func TestSnapshotByTheRealClock(t *testing.T) {
	store := open(t, memstore.Options{})
	limiter := newLimiter(t, store, sliding(2, time.Hour))
	allow(t, limiter, "key", 2)
	restored, err := memstore.Restore(bytes.NewReader(snapshot(t, store)), memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := allow(t, newLimiter(t, restored, sliding(2, time.Hour)), "key", 1); d.Allowed {
		t.Errorf("forgotten: got %+v, want refused", d)
	}
}

func TestRestoreDetectsDamage(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	store := open(t, memstore.Options{Now: clock.Now})
	for _, limit := range limitsOfAllForms(5) {
		limiter := newPlan(t, store, limit)
		for i := range 5 {
			allow(t, limiter, fmt.Sprint(i), 1)
		}
	}
	useEveryKind(t, store)
	saved := snapshot(t, store)
	for n := range saved {
		if _, err := memstore.Restore(bytes.NewReader(saved[:n]), memstore.Options{}); !errors.Is(err, memstore.ErrSnapshot) {
			t.Fatalf("cut off after %d bytes: %v", n, err)
		}
		damaged := bytes.Clone(saved)
		damaged[n] ^= 0x10
		if _, err := memstore.Restore(bytes.NewReader(damaged), memstore.Options{}); err == nil {
			t.Fatalf("byte %d of %d was changed, but Restore returned no error", n, len(saved))
		}
	}
	if _, err := memstore.Restore(bytes.NewReader(saved), memstore.Options{}); err != nil {
		t.Fatalf("undamaged: %v", err)
	}
}

// useEveryKind creates state of every kind in a store, including settlements.
func useEveryKind(t testing.TB, st store.Store) {
	t.Helper()
	for _, limit := range everyLimit(t, 5) {
		charge := store.Charge{Limit: limit, Key: "key", Cost: 1}
		for id := range rule.ID(3) {
			decide(t, st, rule.Take, id+1, charge)
		}
		decide(t, st, rule.Settle, 1, charge)
	}
}

// Damage with a correct checksum either is an error or gives a state that can be decided about: nothing panics.
func TestRestoreOfForgedBytes(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	useEveryKind(t, st)
	saved := snapshot(t, st)
	random := rand.New(rand.NewPCG(15, 0))
	accepted := 0
	for range 10_000 {
		forged := bytes.Clone(saved)
		for range 1 + random.IntN(3) {
			forged[20+random.IntN(len(forged)-24)] = byte(random.Uint32())
		}
		restored, err := memstore.Restore(bytes.NewReader(memstore.Sign(forged)), memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
		if err != nil {
			continue
		}
		accepted++
		useEveryKind(t, restored)
	}
	if accepted < 100 {
		t.Errorf("only %d were accepted: the test proves nothing", accepted)
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestSnapshotReportsWriteErrors(t *testing.T) {
	store := open(t, memstore.Options{})
	limiter := newLimiter(t, store, sliding(2, time.Hour))
	for i := range 2000 {
		allow(t, limiter, fmt.Sprint(i), 1)
	}
	size := len(snapshot(t, store))
	for _, room := range []int{0, size / 2, size - 1} {
		if err := store.Snapshot(&brokenWriter{room}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("a writer that takes %d of %d bytes: %v", room, size, err)
		}
	}
}

// Snapshots are taken while the store is in use and grows.
func TestSnapshotUnderLoad(t *testing.T) {
	store := open(t, memstore.Options{})
	limiter := newLimiter(t, store, sliding(1, time.Hour))
	for i := range 2000 {
		allow(t, limiter, fmt.Sprint("before", i), 1)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 30_000 {
			if _, err := limiter.Allow(context.Background(), fmt.Sprint("during", i)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range 5 {
		restored, err := memstore.Restore(bytes.NewReader(snapshot(t, store)), memstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		after := newLimiter(t, restored, sliding(1, time.Hour))
		for i := range 2000 {
			if allow(t, after, fmt.Sprint("before", i), 1).Allowed {
				t.Fatalf("key %d is missing from a snapshot", i)
			}
		}
	}
	<-done
}

func FuzzRestore(f *testing.F) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	for _, limit := range limitsOfAllForms(5) {
		store := open(f, memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
		limiter := newLimiter(f, store, limit)
		for i := range 3 {
			allow(f, limiter, fmt.Sprint(i), 1)
		}
		f.Add(snapshot(f, store))
	}
	store := open(f, memstore.Options{Now: clock.Now})
	useEveryKind(f, store)
	f.Add(snapshot(f, store))
	f.Fuzz(func(t *testing.T, saved []byte) {
		store, err := memstore.Restore(bytes.NewReader(saved), memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
		if err != nil {
			return
		}
		for _, limit := range limitsOfAllForms(5) {
			allow(t, newPlan(t, store, limit), "key", 1)
		}
		useEveryKind(t, store)
	})
}

// A snapshot of a future version is rejected, and the error says what to do.
func TestNewerSnapshot(t *testing.T) {
	current := snapshot(t, open(t, memstore.Options{}))
	for _, version := range []string{"2", "10", "999999999"} {
		newer := strings.Replace(string(current), "memory 1\n", "memory "+version+"\n", 1)
		_, err := memstore.Restore(strings.NewReader(newer), memstore.Options{})
		if !errors.Is(err, memstore.ErrNewer) || errors.Is(err, memstore.ErrSnapshot) ||
			!strings.Contains(err.Error(), "its format is "+version+",") || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("version %s: %v", version, err)
		}
	}
	for _, version := range []string{"0", "-1", "", "x", "1 ", "9999999999"} {
		other := strings.Replace(string(current), "memory 1\n", "memory "+version+"\n", 1)
		if _, err := memstore.Restore(strings.NewReader(other), memstore.Options{}); !errors.Is(err, memstore.ErrSnapshot) {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// Slots, calendars, buckets and settlements survive a restart.
func TestSnapshotOfEveryKind(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	var charges []store.Charge
	for _, limit := range everyLimit(t, 5) {
		charges = append(charges, store.Charge{Limit: limit, Key: "key", Cost: 1, Used: 3})
	}
	for id := range rule.ID(3) {
		for i, a := range decide(t, st, rule.Take, id+1, charges...) {
			charges[i].At = a.At
		}
		clock.Advance(1_000_001)
	}
	settled := decide(t, st, rule.Settle, 2, charges...)
	clock.Advance(1_000_001)
	restored := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	if n := restored.Stats().Settlements; n != 1 {
		t.Errorf("got %d settlements after a restart", n)
	}
	for _, step := range []struct {
		op rule.Op
		id rule.ID
	}{{rule.Settle, 2}, {rule.Renew, 2}, {rule.Renew, 3}, {rule.Peek, 0}, {rule.Settle, 1}, {rule.Take, 4}, {rule.Peek, 0}} {
		want, got := decide(t, st, step.op, step.id, charges...), decide(t, restored, step.op, step.id, charges...)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v %d after a restart:\n got %+v\nwant %+v", step.op, step.id, got, want)
		}
		if step.op == rule.Settle && step.id == 2 && (got[0].Granted != settled[0].Granted || got[0].Flags&rule.Repeated == 0) {
			t.Errorf("the settlement after a restart: %+v, before it: %+v", got[0], settled[0])
		}
		clock.Advance(500_001)
	}
}

// A generation that was full before a restart is full after it.
func TestSnapshotOfFullGeneration(t *testing.T) {
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	charge := store.Charge{Limit: everyLimit(t, 5)[0], Key: "key", Cost: 1}
	for id := range rule.ID(1000) {
		decide(t, st, rule.Settle, id, charge)
	}
	restored := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	if a := decide(t, restored, rule.Settle, 1000, charge)[0]; a.Flags&rule.Unsettled == 0 {
		t.Errorf("one settlement too many after a restart: %+v", a)
	}
	clock.Advance(2 * rule.LongMemory)
	later := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	if n := later.Stats().Settlements; n != 0 {
		t.Errorf("%d expired settlements were saved", n)
	}
}
