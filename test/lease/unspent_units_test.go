package lease_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/internal/leases"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

// Leased units are charged on the server. These tests are about what happens to them.

// steady is a limit whose window does not advance while a test reads the server's counts.
var steady = slidegate.Limit{Name: "steady", Quota: 1_000, Window: 10 * time.Minute, Segments: 60, Overlap: slidegate.OverlapWhole, Lease: true}

// A process that is killed leaves units charged that no process spends. They are free again when their window has
// passed, and the whole quota is then available.
func TestUnitsOfKilledProcessExpire(t *testing.T) {
	overServers(t, func(t *testing.T, s server) {
		limit := kit.Must(bind(narrow))(t)
		f := startFleet(t, s, 1, time.Hour)
		for {
			kit.Eventually(t, "some to be leased", func() bool { return f.unspent(0) > 0 })
			f.workers[0].Kill()
			records := f.records() // before the server is called: the server must have at least as much
			peek := kit.Must(apply(s.raw, rule.Peek, store.Charge{Limit: limit, Key: key}))(t)
			counted := limit.Rule().Quota - peek.Remaining
			all := current(records, limit.Rule(), peek.At)
			admitted := sum(all, narrow.Name, spent) + sum(all, narrow.Name, direct)
			t.Logf("the server counts %d, and %d were admitted", counted, admitted)
			if counted < admitted {
				t.Errorf("the server counts %d, and %d were admitted", counted, admitted)
			}
			if counted > admitted {
				break
			}
			f.start(0) // it had nothing when it was killed
			f.sendOrder(0)
		}
		kit.Eventually(t, "the whole quota to be free", func() bool { return used(t, s, limit) == 0 })
		if a := kit.Must(apply(s.raw, rule.Take, store.Charge{Limit: limit, Key: key, Cost: narrow.Quota}))(t); !a.Allowed {
			t.Errorf("the quota is not free: got %+v, want allowed", a)
		}
	})
}

// unspent returns how many units of the narrow limit a process holds in leases, by its records.
func (f *fleet) unspent(i int) int64 {
	all := read(f.t, f.journals[f.current[i]], f.current[i])
	return sum(all, narrow.Name, granted) - sum(all, narrow.Name, spent) - sum(all, narrow.Name, returning)
}

// current returns what was charged in parts that count at a time of the server's clock.
func current(all []record, limit *rule.Limit, now rule.Micros) (some []record) {
	start, end := leases.Part(limit, now)
	oldest := start - limit.Window
	for _, r := range all {
		if r.At >= oldest && r.At < end {
			some = append(some, r)
		}
	}
	return some
}

// The leased units of an idle key are returned: the server then counts only what was admitted.
func TestIdleKeyReturnsItsUnits(t *testing.T) {
	overServers(t, func(t *testing.T, s server) {
		limit := kit.Must(bind(steady))(t)
		l := leased(t, s.raw)
		admitted := warmUp(t, l, limit)
		kit.Eventually(t, "nothing to be leased", func() bool { st := l.Stats(); return st.Returned == st.Taken-st.Spent })
		if got := used(t, s, limit); got != admitted {
			t.Errorf("the server counts %d, and %d were admitted; %+v", got, admitted, l.Stats())
		}
		if st := l.Stats(); st.Returned == 0 {
			t.Errorf("nothing had to be returned: %+v", st)
		}
	})
}

// Close returns all leased units before it returns, and requests go straight to the server from then on.
func TestCloseReturnsAllUnits(t *testing.T) {
	overServers(t, func(t *testing.T, s server) {
		limit := kit.Must(bind(steady))(t)
		l := leased(t, s.raw)
		admitted := warmUp(t, l, limit)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if got := used(t, s, limit); got != admitted {
			t.Errorf("the server counts %d, and %d were admitted; %+v", got, admitted, l.Stats())
		}
		allowed, flags, left, _, _, _, err := l.TakeSingle(ctx, limit, key, 1)
		if want := steady.Quota - admitted - 1; !allowed || flags != 0 || left != want || err != nil {
			t.Errorf("after Close: got allowed %v, flags %v, %d left, want %d, error %v", allowed, flags, left, want, err)
		}
	})
}

// A reset by another process forgets what was charged for leases, so that at most what was leased then is admitted
// twice. With a reset through the layer that has the leases, nothing is admitted twice.
func TestResetAdmitsAtMostLeasedUnitsTwice(t *testing.T) {
	overServers(t, func(t *testing.T, s server) {
		for round := range 5 {
			testReset(t, s, slidegate.Limit{Name: "elsewhere", Quota: 200 + int64(round), Window: 10 * time.Minute, Segments: 60,
				Overlap: slidegate.OverlapWhole, Lease: true}, false)
			testReset(t, s, slidegate.Limit{Name: "here", Quota: 200 + int64(round), Window: 10 * time.Minute, Segments: 60,
				Overlap: slidegate.OverlapWhole, Lease: true}, true)
		}
	})
}

func testReset(t *testing.T, s server, l slidegate.Limit, here bool) {
	t.Helper()
	limit := kit.Must(bind(l))(t)
	path := filepath.Join(t.TempDir(), "journal")
	j := kit.Must(openJournal(path))(t)
	layer := kit.Must(j.openLeases(s.raw))(t)
	kit.Must(apply(s.raw, rule.Reset, store.Charge{Limit: limit, Key: key}))(t)
	warmUp(t, layer, limit)
	var by store.Store = s.raw
	if here {
		by = layer
	}
	kit.Must(apply(by, rule.Reset, store.Charge{Limit: limit, Key: key}))(t)
	steps := timeline{{wall: time.Now().UnixNano()}}
	before := len(read(t, path, 0))
	takeAll(t, layer, limit)
	second := leased(t, s.raw)
	other := takeAll(t, second, limit)
	all := read(t, path, 0)
	outstanding := steps.outstanding(all, l.Name, 1)
	after := all[before:] // not by their times, which are not exact enough
	got := sum(after, l.Name, spent) + sum(after, l.Name, direct) + other
	most := l.Quota
	if !here {
		most += outstanding
	}
	t.Logf("%s: after the reset %d of a quota of %d were admitted; %d were leased", l.Name, got, l.Quota, outstanding)
	least := l.Quota - layer.Stats().Wasted - second.Stats().Wasted // on a busy machine a lease can end before it is spent
	if got > most || got < least {
		t.Errorf("%s: after the reset %d of a quota of %d were admitted, want %d to %d", l.Name, got, l.Quota, least, most)
	}
}

// takeAll takes units one by one until it is refused, even after leased units were returned, and returns how many it
// got.
func takeAll(t *testing.T, l *lease.Store, limit *store.Limit) (units int64) {
	t.Helper()
	kit.Eventually(t, "all to be used", func() bool {
		allowed, _, left, _, _, _, err := l.TakeSingle(context.Background(), limit, key, 1)
		for ; allowed && err == nil; units++ {
			allowed, _, left, _, _, _, err = l.TakeSingle(context.Background(), limit, key, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		st := l.Stats()
		return left == 0 && st.Outstanding == 0 && st.Taken == st.Spent+st.Returned+st.Wasted
	})
	return units
}
