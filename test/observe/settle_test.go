package observe_test

import (
	"testing"

	"github.com/slidegate/slidegate/layer/observe"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// settling returns a function that sends requests to an observed store in memory, and charges of a tokens and a slots limit.
func settling(t *testing.T, m *meter) (apply func(op rule.Op, id rule.ID, used int64, charges ...store.Charge), both []store.Charge) {
	t.Helper()
	st := open(t, newMemory(t, func() rule.Micros { return noon }), observe.Options{MeterProvider: m.provider})
	for name, limit := range map[string]rule.Limit{
		"tokens": {Algorithm: rule.SlidingLog, Quota: 10, Window: 60_000_000},
		"slots":  {Algorithm: rule.InFlight, Quota: 5, Window: 60_000_000},
	} {
		limit, err := limit.Normalize()
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, store.Charge{Limit: store.Bind("", name, name, limit), Key: "k", Cost: 1, At: noon})
	}
	if both[0].Limit.Name() != "tokens" {
		both[0], both[1] = both[1], both[0]
	}
	both[0].Cost = 3
	apply = func(op rule.Op, id rule.ID, used int64, charges ...store.Charge) {
		t.Helper()
		for i := range charges {
			charges[i].Used = used
		}
		r := store.Request{Op: op, ID: id, Charges: charges, Answers: make([]rule.Answer, len(charges))}
		if err := st.Apply(t.Context(), []store.Request{r}); err != nil {
			t.Fatal(err)
		}
	}
	return apply, both
}

// A settlement counts what it returned or charged, and only the first time; slots count as units, and renewals
// separately.
func TestSettlementsAndSlots(t *testing.T) {
	m := newMeter(t)
	apply, both := settling(t, m)
	apply(rule.Take, 1, 0, both...)   // 3 tokens and a slot
	apply(rule.Take, 2, 0, both...)   // 3 tokens and a slot
	apply(rule.Renew, 1, 0, both...)  // 1 renewed; tokens have nothing to renew
	apply(rule.Settle, 1, 1, both...) // 2 tokens and a slot returned
	apply(rule.Settle, 1, 1, both...) // repeated: counts nothing
	apply(rule.Renew, 1, 0, both...)  // 1 lost
	apply(rule.Settle, 2, 5, both...) // 2 tokens charged, a slot returned
	for id := range rule.ID(998) {
		apply(rule.Settle, 3+id, 1, store.Charge{Limit: both[0].Limit, Key: "k", Cost: 1, At: noon}) // nothing to do
	}
	apply(rule.Settle, 2000, 0, both[0]) // one too many
	m.want(
		"decisions limit=slots,outcome=admitted,source=store,store=memory 2",
		"settlements.repeated limit=tokens,store=memory 1",
		"settlements.unsettled limit=tokens,store=memory 1",
		"slots.lost limit=slots,store=memory 1",
		"slots.renewed limit=slots,store=memory 1",
		"units.given_back limit=slots,store=memory 2",
		"units.given_back limit=tokens,store=memory 2",
		"units.granted limit=slots,store=memory 2",
		"units.granted limit=tokens,store=memory 8",
	)
	units := map[string]string{
		"slidegate.slots.renewed": "{slot}", "slidegate.slots.lost": "{slot}",
		"slidegate.settlements.repeated": "{settlement}", "slidegate.settlements.unsettled": "{settlement}",
	}
	for _, metric := range m.collect().ScopeMetrics[0].Metrics {
		if unit, ok := units[metric.Name]; ok && metric.Unit == unit && metric.Description != "" {
			delete(units, metric.Name)
		}
	}
	if len(units) > 0 {
		t.Errorf("no unit or description: %v", units)
	}
}
