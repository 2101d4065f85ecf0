package coalesce_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// boundTo returns a limit as stores see it.
func boundTo(t testing.TB, name string, limit rule.Limit) *store.Limit {
	t.Helper()
	return store.Bind("coalesce", name, name, testkit.Must(limit.Normalize())(t))
}

// A shared call passes on every field of a request.
func TestSharedCallKeepsAllFields(t *testing.T) {
	var seen []store.Request
	inner := newRecorder(t, func(_ context.Context, batch []store.Request) error {
		for _, r := range batch {
			r.Charges = append([]store.Charge(nil), r.Charges...)
			seen = append(seen, r)
		}
		return nil
	})
	st := newStore(t, inner, patient)
	r := request(rule.Settle, store.Charge{
		Limit: boundTo(t, "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: 10, Window: 60_000_000}), Key: "key", Cost: 3, At: noon, Used: 2,
	})
	r.Group, r.ID, r.Hold, r.Once = "group", 7, true, true
	for _, value := range []reflect.Value{reflect.ValueOf(r), reflect.ValueOf(r.Charges[0])} {
		for i := range value.NumField() {
			if name := value.Type().Field(i).Name; value.Field(i).IsZero() && name != "Err" {
				t.Fatalf("the test does not set %s", name)
			}
		}
	}
	if err := (crowdedStore{st}).Apply(t.Context(), []store.Request{r}); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 {
		t.Fatalf("the store received %d requests", len(seen))
	}
	got := seen[0]
	got.Err, got.Answers = nil, r.Answers
	if !reflect.DeepEqual(got, r) {
		t.Errorf("the store received %+v, want %+v", got, r)
	}
}

// Many goroutines make and settle reservations in shared calls, some of them several times: the counts are as if each
// was settled once, and all slots are free.
func TestSharedSettlements(t *testing.T) {
	const workers, rounds, quota = 16, 40, 10_000
	inner := newRecorder(t, nil)
	st := newStore(t, inner, coalesce.Options{InFlight: 1, Timeout: patient.Timeout})
	limits := []*store.Limit{
		boundTo(t, "log", rule.Limit{Algorithm: rule.SlidingLog, Quota: quota, Window: 60_000_000}),
		boundTo(t, "slots", rule.Limit{Algorithm: rule.InFlight, Quota: quota, Window: 60_000_000}),
	}
	var used [workers]int64
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 15))
			for i := range rounds {
				r := request(rule.Take, store.Charge{Limit: limits[0], Key: "key", Cost: 3}, store.Charge{Limit: limits[1], Key: "key", Cost: 1})
				r.ID = rule.ID(1 + w*rounds + i)
				for _, op := range []rule.Op{rule.Take, rule.Renew} {
					r.Op = op
					if err := st.Apply(t.Context(), []store.Request{r}); err != nil || !r.Answers[1].Allowed || r.Answers[1].Granted != 1 {
						t.Errorf("%v: got %+v, %v, want allowed, Granted 1", op, r.Answers, err)
					}
				}
				r.Op, r.Charges[0].At, r.Charges[0].Used = rule.Settle, r.Answers[0].At, random.Int64N(5)
				used[w] += r.Charges[0].Used
				for range 1 + random.IntN(3) {
					if err := st.Apply(t.Context(), []store.Request{r}); err != nil || r.Answers[0].Granted != 3-r.Charges[0].Used {
						t.Errorf("settle: got %+v, %v, want Granted %d", r.Answers, err, 3-r.Charges[0].Used)
					}
				}
			}
		})
	}
	all.Wait()
	var want int64
	for _, n := range used {
		want += n
	}
	if got := inner.used(t, limits[0], "key"); got != want {
		t.Errorf("got %d units used, want %d", got, want)
	}
	if got := inner.used(t, limits[1], "key"); got != 0 {
		t.Errorf("got %d slots held, want 0", got)
	}
}
