package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// The states of the largest logs, and of more slots than their length in a reply has bytes for.
func TestInspectLarge(t *testing.T) {
	t.Parallel()
	const now, count, slotBytes, window = rule.Micros(1_800_000_000e6), 4_200, 16, 24 * time.Hour
	client := redistest.Server(t).Client(t)
	s := newStore(t, client, redisstore.Options{Now: func() rule.Micros { return now }})
	log := bind(t, "large", slidegate.Limit{Algorithm: slidegate.SlidingLog, Quota: rule.MaxLogQuota, Window: window})
	slots := bind(t, "large", slidegate.Limit{Algorithm: slidegate.InFlight, Quota: rule.MaxLogQuota, Window: window})
	for limit, cost := range map[*store.Limit]int64{log: rule.MaxLogQuota, slots: 1} {
		r := store.Request{Op: rule.Take, ID: 7, Charges: []store.Charge{{Limit: limit, Key: "key", Cost: cost}}, Answers: make([]rule.Answer, 1)}
		if err := s.Apply(t.Context(), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
	}
	// Taking that many slots would keep the server busy for seconds: copy the first one.
	b := client.B()
	names := kit.Must(client.Do(t.Context(), b.Keys().Pattern("*in-flight*").Build()).AsStrSlice())(t)
	one := kit.Must(client.Do(t.Context(), b.Get().Key(names[0]).Build()).ToString())(t)
	many := strings.Repeat(one[:slotBytes], count) + one[slotBytes:]
	if err := client.Do(t.Context(), b.Set().Key(names[0]).Value(many).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	state, at, err := s.Inspect(t.Context(), log, "", "key")
	if err != nil || at != now || state.Log.Len() != rule.MaxLogQuota || state.Log.Time(0) != now {
		t.Errorf("a log: got %d units at %d, %v, want %d", state.Log.Len(), at, err, rule.MaxLogQuota)
	}
	state, _, err = s.Inspect(t.Context(), slots, "", "key")
	if err != nil || len(state.Slots) != count || state.Slots[count-1] != (rule.Slot{ID: 7, Renewed: now}) {
		t.Errorf("slots: got %d, %v, want %d", len(state.Slots), err, count)
	}
}
