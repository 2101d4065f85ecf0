package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

// A full store admits no more than the rule does for slots and calendars either, even if slots are renewed and released,
// and after a restart. The oracle receives what the store admitted.
func TestFullStoreOfSlotsAndCalendars(t *testing.T) {
	memstore.Alone(t)
	for _, limit := range everyLimit(t, 3)[6:] {
		if limit.Name() == "default" { // a log comes back in parts, which give back what was not charged at the same microsecond
			continue
		}
		t.Run(limit.Name(), func(t *testing.T) {
			clock := storetest.NewClock(1_767_225_600_000_000)
			opts := memstore.Options{MaxBytes: 256 << 10, Now: clock.Now}
			st := openFolder(t, opts)
			st.SetCapacity(20_000)
			oracle := &plainStore{states: map[string]rule.State{}}
			random := rand.New(rand.NewPCG(15, 0))
			inherited, lost := 0, 0
			for i := range 30_000 {
				if i%10_000 == 9_999 {
					st = restart(t, st, ways[i/10_000%2], opts)
				}
				r := store.Request{ID: rule.ID(1_000 + random.IntN(4)), Charges: []store.Charge{{Limit: limit, Key: fmt.Sprint(random.IntN(3000)), Cost: 1}}}
				switch random.IntN(6) {
				case 0:
					r.Op = rule.Renew
				case 1:
					r.Op, r.Charges[0].At = rule.GiveBack, clock.Now()
				}
				want := r
				r.Answers, want.Answers = make([]rule.Answer, 1), make([]rule.Answer, 1)
				if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
					t.Fatal(err)
				}
				got := r.Answers[0]
				if got.Flags&rule.Inherited != 0 {
					inherited++
				}
				if r.Op == rule.Take && !got.Allowed || r.Op != rule.Take && got.Granted == 0 {
					if r.Op == rule.Renew && !got.Allowed {
						lost++
					}
					continue
				}
				oracle.apply(&want, clock.Now())
				// A key can give back inherited units as if they were its own. Slots have owners, so they cannot be given
				// back.
				differs := want.Answers[0].Allowed != got.Allowed || want.Answers[0].Granted != got.Granted
				if differs && (r.Op != rule.GiveBack || limit.Rule().Algorithm == rule.InFlight) {
					t.Fatalf("request %d, %v: got %+v, want %+v", i, r.Op, got, want.Answers[0])
				}
				clock.Advance(rule.Micros(random.Int64N(20_000)))
			}
			if inherited == 0 || limit.Rule().Algorithm == rule.InFlight && lost == 0 {
				t.Fatalf("%d inherited, %d slots lost: the test proves nothing", inherited, lost)
			}
		})
	}
}

// A key that once held many slots does not keep the memory for them, and one that holds none takes none.
func TestSlotsGiveMemoryBack(t *testing.T) {
	memstore.Alone(t)
	clock := storetest.NewClock(1_767_225_600_000_000)
	st := open(t, memstore.Options{Now: clock.Now})
	charge := store.Charge{Limit: everyLimit(t, 1_000)[7], Key: "key", Cost: 1, At: 1}
	for id := range rule.ID(1_000) {
		decide(t, st, rule.Take, id+1, charge)
	}
	for id := range rule.ID(1_000) {
		decide(t, st, rule.GiveBack, id+1, charge)
		if held, bytes := 999-int64(id), memstore.SlabBytes(st, charge.Limit); bytes > 32<<10+64*held {
			t.Fatalf("%d slots are held in %d bytes", held, bytes)
		}
	}
}
