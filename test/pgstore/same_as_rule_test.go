package pgstore_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
	"pgregory.net/rapid"
)

// withClock opens stores with a test's clock.
func withClock(pool *pgxpool.Pool) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		return newStore(t, pool, pgstore.Options{Now: now})
	}
}

// The functions decide as the rule in Go does.
func TestFunctionsMatchTheRule(t *testing.T) {
	t.Parallel()
	porttest.SameAsRule(t, withClock(database(t, pgstore.Options{})), porttest.Options{})
}

// The fast paths for the most common requests also decide as the rule does, for one key and for several, where equal
// requests are combined. Other operations in between leave states that takes alone do not reach.
func TestFastPathsMatchTheRule(t *testing.T) {
	for name, opts := range map[string]porttest.Options{
		"pairs":   {Algorithms: []rule.Algorithm{rule.SlidingWindow, rule.FixedWindow}},                                                                          // take, take_many
		"any":     {Algorithms: []rule.Algorithm{rule.SlidingWindow, rule.FixedWindow, rule.SlidingLog, rule.TokenBucket, rule.DefaultAlgorithm}, InParts: true}, // take_any, take_any_many
		"default": {Algorithms: []rule.Algorithm{rule.DefaultAlgorithm}, MaxQuota: 300},                                                                          // the same, on both sides of where a log becomes parts
		"buckets": {Algorithms: []rule.Algorithm{rule.TokenBucket}, MaxQuota: 1_000},                                                                             // the same, with limits that are closer to each other
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts.Moment = runsMostly
			porttest.SameAsRule(t, withClock(database(t, pgstore.Options{})), opts)
		})
	}
}

func runsMostly(g *porttest.Script) {
	if rapid.IntRange(0, 3).Draw(g.T, "any") == 0 {
		g.Moment()
	} else {
		runs(g)
	}
}

// runs sends requests for some keys, for each key one or more equal ones.
func runs(g *porttest.Script) {
	about := rapid.IntRange(0, len(g.Subjects)-1).Draw(g.T, "about")
	g.Move(g.Subjects[about])
	subjects := append(slices.Clone(g.Subjects[about:]), g.Subjects[:about]...)
	for _, s := range subjects[:rapid.SampledFrom([]int{1, len(subjects)}).Draw(g.T, "of them")] {
		limit := s.Limits[rapid.IntRange(0, 1).Draw(g.T, "limit")]
		room := g.Room(s, limit)
		cost := g.DrawCost(limit, room)
		if rapid.Bool().Draw(g.T, "some fit") && room > 0 {
			cost = max(1, room/rapid.Int64Range(1, 4).Draw(g.T, "so many fit"))
		}
		for range rapid.IntRange(1, 5).Draw(g.T, "times") {
			g.Take(s, limit, cost)
		}
	}
	g.Compare()
}

func TestChangedPlans(t *testing.T) {
	t.Parallel()
	porttest.ChangedPlans(t, withClock(database(t, pgstore.Options{})))
}

func TestHoldsOfJumps(t *testing.T) {
	t.Parallel()
	porttest.HoldsOfJumps(t, withClock(database(t, pgstore.Options{})))
}

func TestTraces(t *testing.T) {
	t.Parallel()
	porttest.Traces(t, withClock(database(t, pgstore.Options{})))
}
