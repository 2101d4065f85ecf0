package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A row written by a newer version is an error that says what to do, by every path, and is not changed.
func TestNewerFormat(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	st := newStore(t, pool, pgstore.Options{})
	var limits []*store.Limit
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6},
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6, Segments: 6, Overlap: rule.OverlapWhole, CountDenied: true},
		{Algorithm: rule.FixedWindow, Quota: 20, Window: 60e6, Anchor: rule.AnchorFirst},
		{Algorithm: rule.SlidingLog, Quota: 20, Window: 60e6},
		{Algorithm: rule.TokenBucket, Quota: 7, Burst: 20, Window: 60e6},
		{Algorithm: rule.InFlight, Quota: 2, Window: 60e6},
		{Calendar: rule.Day, Quota: 2},
	} {
		limits = append(limits, bindRule(t, "shop", fmt.Sprint(i), l))
		apply(t, st, rule.Take, store.Charge{Limit: limits[i], Key: "key", Cost: 1})
	}
	if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET previous = -3"); err != nil {
		t.Fatal(err)
	}
	before := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s")
	one := func(limit *store.Limit) store.Request {
		return store.Request{Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	batches := [][]store.Request{{one(limits[0]), one(limits[2])}, {one(limits[1]), one(limits[3])}} // take_many, takes_any
	for _, limit := range limits {
		batches = append(batches, []store.Request{one(limit)})
	}
	for i, batch := range batches {
		err := st.Apply(t.Context(), batch)
		if codeOf(err) != "SG001" || !strings.Contains(err.Error(), "upgrade this program") {
			t.Errorf("batch %d: got error %v, want one that says to upgrade", i, err)
		}
	}
	if after := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s"); after != before {
		t.Errorf("the rows were\n%s\nand are\n%s", before, after)
	}
}
