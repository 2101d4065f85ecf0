package memstore_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// saved is the record, by the version that wrote a snapshot in testdata, of what the snapshot contains.
type saved struct {
	Now    rule.Micros
	Limits []struct {
		Name         string
		Algorithm    rule.Algorithm
		Anchor       rule.Anchor
		Segments     int
		Quota, Burst int64
		Window       rule.Micros
		Keys         []savedKey
	}
}

type savedKey struct {
	Key   string
	Peeks []struct {
		After      rule.Micros // since the snapshot
		Allowed    bool
		Remaining  int64
		RetryAfter rule.Micros
	}
}

// readSaved returns a snapshot of an earlier version, and what that version recorded.
func readSaved(t *testing.T, name string) ([]byte, saved) {
	t.Helper()
	var s saved
	if err := json.Unmarshal(testkit.Must(os.ReadFile("testdata/"+name+".json"))(t), &s); err != nil {
		t.Fatal(err)
	}
	return testkit.Must(os.ReadFile("testdata/" + name + ".snapshot"))(t), s
}

// limits binds the limits as the program that wrote the snapshot did.
func (s *saved) limits(t *testing.T) []*store.Limit {
	t.Helper()
	var bound []*store.Limit
	for _, l := range s.Limits {
		limit := rule.Limit{Algorithm: l.Algorithm, Anchor: l.Anchor, Segments: l.Segments, Quota: l.Quota, Burst: l.Burst, Window: l.Window}
		bound = append(bound, store.Bind("golden", l.Name, l.Name, testkit.Must(limit.Normalize())(t)))
	}
	return bound
}

// A snapshot written by version 1 decides about every key as version 1 would have, both directly and after it was saved
// again in the current format.
func TestSnapshotOfVersion1(t *testing.T) {
	snapshot1, want := readSaved(t, "version1")
	clock := storetest.NewClock(want.Now)
	st := testkit.Must(memstore.Restore(bytes.NewReader(snapshot1), memstore.Options{Now: clock.Now}))(t)
	again := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	refused := 0
	for i, limit := range want.limits(t) {
		for _, key := range want.Limits[i].Keys {
			for _, peek := range key.Peeks {
				clock.Set(want.Now + peek.After)
				for _, st := range []*memstore.Store{st, again} {
					a := decide(t, st, rule.Peek, 0, store.Charge{Limit: limit, Key: key.Key, Cost: 1})[0]
					if a.Allowed != peek.Allowed || a.Remaining != peek.Remaining || a.RetryAfter != peek.RetryAfter {
						t.Errorf("%v, key %s, %d later: %+v, want %+v", limit.Rule(), key.Key, peek.After, a, peek)
					}
				}
				if !peek.Allowed {
					refused++
				}
			}
		}
	}
	if refused < 20 {
		t.Errorf("only %d denials: the test proves nothing", refused)
	}
}

// Version 1 had other sets for token buckets, so what a full store had forgotten is now in other places: no key gets its
// quota back.
func TestFullSnapshotOfVersion1(t *testing.T) {
	full, want := readSaved(t, "version1-full")
	clock := storetest.NewClock(want.Now)
	limit := want.limits(t)[0]
	for _, size := range []int64{256 << 10, 64 << 20} {
		st := testkit.Must(memstore.Restore(bytes.NewReader(full), memstore.Options{Now: clock.Now, MaxBytes: size}))(t)
		for i := range 1200 {
			// Some keys may have their last unit left, which the floor had denied them; none has three.
			if decide(t, st, rule.Take, 0, store.Charge{Limit: limit, Key: fmt.Sprint("key", i), Cost: 3})[0].Allowed {
				t.Fatalf("key %d has its quota back in a store of %d", i, size)
			}
		}
	}
}

// A token bucket of version 1 can be charged, given back to and saved like any other.
func TestBucketOfVersion1GoesOn(t *testing.T) {
	snapshot1, want := readSaved(t, "version1")
	clock := storetest.NewClock(want.Now)
	st := testkit.Must(memstore.Restore(bytes.NewReader(snapshot1), memstore.Options{Now: clock.Now}))(t)
	bucket := want.limits(t)[7] // 7 per minute, burst 20
	for _, key := range want.Limits[7].Keys {
		charge := store.Charge{Limit: bucket, Key: key.Key, Cost: 1}
		if a := decide(t, st, rule.Charge, 0, charge)[0]; a.Remaining != max(0, key.Peeks[0].Remaining-1) {
			t.Errorf("key %s: one more charged: %+v, %d were left", key.Key, a, key.Peeks[0].Remaining)
		}
	}
	restored := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	for _, key := range want.Limits[7].Keys {
		charge := store.Charge{Limit: bucket, Key: key.Key, Cost: 1}
		if got, want := decide(t, restored, rule.Peek, 0, charge)[0], decide(t, st, rule.Peek, 0, charge)[0]; got != want {
			t.Errorf("key %s: after a restart %+v, want %+v", key.Key, got, want)
		}
	}
}

// A snapshot of a future version is rejected, and the error says what to do.
func TestNewerSnapshot(t *testing.T) {
	current := snapshot(t, open(t, memstore.Options{}))
	for _, version := range []string{"5", "10", "999999999"} {
		newer := strings.Replace(string(current), "memory 4\n", "memory "+version+"\n", 1)
		_, err := memstore.Restore(strings.NewReader(newer), memstore.Options{})
		if !errors.Is(err, memstore.ErrNewer) || errors.Is(err, memstore.ErrSnapshot) || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("version %s: %v", version, err)
		}
	}
	for _, version := range []string{"0", "-1", "", "x", "4 ", "9999999999"} {
		other := strings.Replace(string(current), "memory 4\n", "memory "+version+"\n", 1)
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
		if step.op == rule.Settle && step.id == 2 && (got[0].Granted != settled[0].Granted || !got[0].Flags.Repeated()) {
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
	if a := decide(t, restored, rule.Settle, 1000, charge)[0]; !a.Flags.Unsettled() {
		t.Errorf("one settlement too many after a restart: %+v", a)
	}
	clock.Advance(2 * rule.LongMemory)
	later := testkit.Must(memstore.Restore(bytes.NewReader(snapshot(t, st)), memstore.Options{Now: clock.Now}))(t)
	if n := later.Stats().Settlements; n != 0 {
		t.Errorf("%d expired settlements were saved", n)
	}
}
