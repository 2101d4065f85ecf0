package pgstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
)

// A request of too many charges or of none is refused by itself; the others of its batch are decided.
func TestChargesPerRequest(t *testing.T) {
	t.Parallel()
	s := newStore(t, database(t, pgstore.Options{}), pgstore.Options{})
	limit := bind(t, "", porttest.Kinds()[0])
	batch := make([]store.Request, 3)
	for i, n := range []int{0, 65, 64} {
		for j := range n {
			batch[i].Charges = append(batch[i].Charges, store.Charge{Limit: limit, Key: strings.Repeat("k", j), Cost: 1})
		}
		batch[i].Answers = make([]rule.Answer, n)
	}
	err := s.Apply(t.Context(), batch)
	for i, r := range batch[:2] {
		if !errors.Is(r.Err, store.ErrUnsupported) {
			t.Errorf("request %d: %v", i, r.Err)
		}
	}
	if err == nil || err.Error() != batch[0].Err.Error() {
		t.Errorf("Apply returned %v, want the first request's error %v", err, batch[0].Err)
	}
	if batch[2].Err != nil || batch[2].Answers[63].Remaining != 9 {
		t.Errorf("the last request has %v, %+v, want no error and 9 left in the last answer", batch[2].Err, batch[2].Answers)
	}
}

// A batch of any size is decided, in order.
func TestLargeBatch(t *testing.T) {
	t.Parallel()
	s := newStore(t, database(t, pgstore.Options{}), pgstore.Options{})
	limit := bind(t, "", slidegate.Limit{Quota: 2_000, Window: time.Hour})
	batch := make([]store.Request, 2_500)
	for i := range batch {
		batch[i] = store.Request{Charges: []store.Charge{{Limit: limit, Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	if err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for i := range batch {
		if a := batch[i].Answers[0]; a.Allowed != (i < 2_000) || a.Remaining != max(0, 2_000-int64(i)-1) {
			t.Fatalf("request %d: %+v", i, a)
		}
	}
}
