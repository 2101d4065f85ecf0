package redisstore_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/redistest"
)

// The states of the largest logs, and of more slots than their length in a reply has bytes for.
func TestInspectLarge(t *testing.T) {
	t.Parallel()
	const now, count, window = rule.Micros(1_800_000_000e6), 4_200, 24 * time.Hour
	s := newStore(t, redistest.Server(t).Client(t), redisstore.Options{Now: func() rule.Micros { return now }})
	log := bind(t, "large", slidegate.Limit{Algorithm: slidegate.SlidingLog, Quota: rule.MaxLogQuota, Window: window})
	slots := bind(t, "large", slidegate.Limit{Algorithm: slidegate.InFlight, Quota: rule.MaxLogQuota, Window: window})
	batch := []store.Request{{Op: rule.Take, Charges: []store.Charge{{Limit: log, Key: "key", Cost: rule.MaxLogQuota}}, Answers: make([]rule.Answer, 1)}}
	for id := range rule.ID(count) {
		batch = append(batch, store.Request{
			Op: rule.Take, ID: id + 1, Charges: []store.Charge{{Limit: slots, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1),
		})
	}
	if err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	state, at, err := s.Inspect(t.Context(), log, "", "key")
	if err != nil || at != now || state.Log.Len() != rule.MaxLogQuota || state.Log.Time(0) != now {
		t.Errorf("a log: got %d units at %d, %v, want %d", state.Log.Len(), at, err, rule.MaxLogQuota)
	}
	state, _, err = s.Inspect(t.Context(), slots, "", "key")
	if err != nil || len(state.Slots) != count || state.Slots[count-1] != (rule.Slot{ID: count, Renewed: now}) {
		t.Errorf("slots: got %d, %v, want %d", len(state.Slots), err, count)
	}
}
