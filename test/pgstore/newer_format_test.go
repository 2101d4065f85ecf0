package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// A row of another format is an error that names it and says what to do, by every path, and is not changed.
func TestOtherFormat(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	st := newStore(t, pool, pgstore.Options{})
	var limits []*store.Limit
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6},
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 60e6, Segments: 6, Overlap: rule.OverlapWhole, CountRefused: true},
		{Algorithm: rule.FixedWindow, Quota: 20, Window: 60e6, Anchor: rule.AnchorFirst},
		{Algorithm: rule.SlidingLog, Quota: 20, Window: 60e6},
		{Algorithm: rule.TokenBucket, Quota: 7, Burst: 20, Window: 60e6},
		{Algorithm: rule.InFlight, Quota: 2, Window: 60e6},
		{Calendar: rule.Day, Quota: 2},
	} {
		limits = append(limits, bindRule(t, "shop", fmt.Sprint(i), l))
		apply(t, st, rule.Take, store.Charge{Limit: limits[i], Key: "key", Cost: 1})
	}
	if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET previous = -2"); err != nil {
		t.Fatal(err)
	}
	before := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s")
	one := func(limit *store.Limit) store.Request {
		return store.Request{Charges: []store.Charge{{Limit: limit, Key: "key", Cost: 1}}, Answers: make([]rule.Answer, 1)}
	}
	batches := [][]store.Request{{one(limits[0]), one(limits[2])}, {one(limits[1]), one(limits[3])}} // take_many, take_any_many
	for _, limit := range limits {
		batches = append(batches, []store.Request{one(limit)})
	}
	for i, batch := range batches {
		err := st.Apply(t.Context(), batch)
		if codeOf(err) != "SG001" || !strings.Contains(err.Error(), "upgrade this program: ") || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("batch %d: got error %v, want one that says to upgrade because of format 2", i, err)
		}
	}
	if after := queryText(t, pool, "SELECT string_agg(s::text, ' ' ORDER BY s.address) FROM slidegate_state s"); after != before {
		t.Errorf("the rows were\n%s\nand are\n%s", before, after)
	}
}

// A row that cannot be read fails only the requests for it: the others of the batch are decided, once, by every path.
func TestOtherFormatAmongOthers(t *testing.T) {
	t.Parallel()
	pool := database(t, pgstore.Options{})
	st := newStore(t, pool, pgstore.Options{})
	for i, l := range []rule.Limit{
		{Algorithm: rule.SlidingWindow, Quota: 20, Window: 3600e6, Overlap: rule.OverlapWhole},
		{Algorithm: rule.SlidingLog, Quota: 20, Window: 3600e6},
		{Calendar: rule.Year, Quota: 20},
	} {
		limit := bindRule(t, "shop", fmt.Sprint("among", i), l)
		apply(t, st, rule.Take, store.Charge{Limit: limit, Key: "bad", Cost: 1})
		if _, err := pool.Exec(t.Context(), "UPDATE slidegate_state SET previous = -2 WHERE address LIKE '%bad'"); err != nil {
			t.Fatal(err)
		}
		var batch []store.Request
		for k := range 20 {
			key := fmt.Sprint("key-", k%7)
			if k%9 == 4 {
				key = "bad"
			}
			batch = append(batch, store.Request{Charges: []store.Charge{{Limit: limit, Key: key, Cost: 1}}, Answers: make([]rule.Answer, 1)})
		}
		if err := st.Apply(t.Context(), batch); codeOf(err) != "SG001" {
			t.Errorf("%v: got error %v for the batch, want that of its bad key", l.Algorithm, err)
		}
		used := map[string]int64{}
		for k := range batch {
			key, a := batch[k].Charges[0].Key, batch[k].Answers[0]
			if used[key]++; key == "bad" {
				if codeOf(batch[k].Err) != "SG001" {
					t.Errorf("%v: the bad key has error %v", l.Algorithm, batch[k].Err)
				}
			} else if batch[k].Err != nil || !a.Allowed || a.Remaining != 20-used[key] {
				t.Errorf("%v: request %d: got %+v, %v, want %d remaining", l.Algorithm, k, a, batch[k].Err, 20-used[key])
			}
		}
	}
}
