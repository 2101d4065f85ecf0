package memstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/storetest"
)

// recordsOf returns everything in a folder, with a checkpoint and without.
func recordsOf(t testing.TB, clock *storetest.Clock) (records []journal.Record) {
	t.Helper()
	st := openFolder(t, memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
	dir, _ := folders.Load(st)
	collect := func() {
		testkit.Must(journal.Inspect(dir.(string), func(r journal.Record) error {
			r.Body = bytes.Clone(r.Body)
			records = append(records, r)
			return nil
		}))(t)
	}
	for _, limit := range limitsOfAllForms(5) {
		limiter := newPlan(t, st, limit)
		for i := range 3 {
			allow(t, limiter, fmt.Sprint(i), 1)
		}
	}
	useEveryKind(t, st)
	for _, limit := range holdingLimits(t, 10) {
		hold(t, st, limit, "held", 9, limit.Rule().Quota/10)
	}
	limiter := newLimiter(t, st, sliding(1, 1e9))
	for i := range 12_000 { // some are forgotten
		allow(t, limiter, fmt.Sprint("flood", i), 1)
	}
	for i := range 200 {
		check(t, limiter.Reset(t.Context(), fmt.Sprint("flood", i)))
	}
	for range 2 { // the second is more than a note can say
		allow(t, newLimiter(t, st, sliding(1_000_000, 1e10)), "much", 5_000)
	}
	testkit.Must(st.SwapDocument(t.Context(), "document", []byte("text"), 0))(t)
	collect()
	check(t, st.Checkpoint())
	collect()
	return records
}

// Damage with a correct checksum either is an error or gives a state that can be decided about: nothing panics.
func TestReplayOfForgedRecords(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(startMicros)
	records := recordsOf(t, clock)
	kinds := map[uint8][]int{}
	for i, r := range records {
		if !r.IsNote {
			kinds[r.Kind] = append(kinds[r.Kind], i)
		}
	}
	if len(kinds) < 9 {
		t.Fatalf("got only %d kinds of records", len(kinds))
	}
	short := fewOfEach(records)
	random := rand.New(rand.NewPCG(15, 0))
	accepted := 0
	for range 3_000 {
		forged := make([]journal.Record, len(short))
		copy(forged, short)
		for range 1 + random.IntN(3) {
			r := &forged[random.IntN(len(forged))]
			if r.IsNote {
				r.A, r.B = r.A^1<<random.IntN(64), r.B^1<<random.IntN(64)
				continue
			}
			r.Body = bytes.Clone(r.Body)
			r.Body[random.IntN(len(r.Body))] = byte(random.Uint32())
			if random.IntN(8) == 0 {
				r.Body = r.Body[:random.IntN(len(r.Body))]
			}
		}
		restored, err := memstore.Replay(forged, memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
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

// fewOfEach returns at most eight records of each kind, and all that describe limits.
func fewOfEach(records []journal.Record) (some []journal.Record) {
	n := map[uint8]int{}
	for _, r := range records {
		kind := r.Kind
		if r.IsNote {
			kind = 255
		}
		if n[kind]++; n[kind] <= 8 || kind == 2 {
			some = append(some, r)
		}
	}
	return some
}

func FuzzReplay(f *testing.F) {
	clock := storetest.NewClock(startMicros)
	records := fewOfEach(recordsOf(f, clock))
	for i := range records {
		f.Add(i, records[i].Kind, records[i].Body)
	}
	f.Fuzz(func(t *testing.T, at int, kind uint8, body []byte) {
		forged := bytes.Clone(body)
		all := append([]journal.Record(nil), records...)
		if at = max(at, 0) % len(all); !all[at].IsNote {
			all[at].Kind, all[at].Body = kind, forged
		}
		restored, err := memstore.Replay(all, memstore.Options{MaxBytes: 256 << 10, Now: clock.Now})
		if err != nil {
			return
		}
		useEveryKind(t, restored)
		for _, limit := range limitsOfAllForms(5) {
			allow(t, newPlan(t, restored, limit), "key", 1)
		}
	})
}
