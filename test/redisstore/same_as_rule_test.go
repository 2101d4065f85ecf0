package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
	"pgregory.net/rapid"
)

// withClock opens stores with a test's clock.
func withClock(client rueidis.Client) porttest.Open {
	return func(t testing.TB, now func() rule.Micros) store.Store {
		t.Helper()
		return newStore(t, client, redisstore.Options{Now: now})
	}
}

// The script decides as the rule in Go does.
func TestScriptMatchesTheRule(t *testing.T) {
	t.Parallel()
	porttest.SameAsRule(t, withClock(redistest.Server(t).Client(t)), porttest.Options{OneKey: true})
}

// Its fast paths, which decide requests of one charge, also decide as the rule does. Other operations in between leave
// states that the fast paths alone do not reach.
func TestFastPathsMatchTheRule(t *testing.T) {
	t.Parallel()
	client := redistest.Server(t).Client(t)
	for name, opts := range map[string]porttest.Options{
		"all":     {},
		"window":  {Algorithms: []rule.Algorithm{rule.SlidingWindow, rule.FixedWindow}},
		"parts":   {Algorithms: []rule.Algorithm{rule.SlidingWindow}, InParts: true, MaxQuota: 1_000},
		"bucket":  {Algorithms: []rule.Algorithm{rule.TokenBucket}, MaxQuota: 1_000},
		"log":     {Algorithms: []rule.Algorithm{rule.SlidingLog}},
		"default": {Algorithms: []rule.Algorithm{rule.DefaultAlgorithm}},
		"narrow":  {Algorithms: []rule.Algorithm{rule.DefaultAlgorithm}, MaxQuota: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts.Moment = func(g *porttest.Script) {
				if rapid.IntRange(0, 9).Draw(g.T, "any") == 0 {
					g.Moment()
				} else {
					takes(g)
				}
			}
			porttest.SameAsRule(t, withClock(client), opts)
		})
	}
}

// fastOps are the operations that have a fast path.
var fastOps = []rule.Op{rule.Take, rule.Take, rule.Take, rule.Take, rule.TakeUpTo, rule.GiveBack}

// takes moves the clock, mostly forward, and sends requests for a few keys: each once and equal, or all in random order.
func takes(g *porttest.Script) {
	about := rapid.SampledFrom(g.Subjects).Draw(g.T, "about")
	if rapid.Bool().Draw(g.T, "jump") {
		g.Move(about)
	} else {
		g.Advance(about)
	}
	if rapid.Bool().Draw(g.T, "alike") {
		for _, s := range g.Subjects {
			g.Take(s, s.Limits[0], 1)
		}
	} else {
		for range rapid.IntRange(1, 12).Draw(g.T, "takes") {
			s := rapid.SampledFrom(g.Subjects).Draw(g.T, "of")
			limit := s.Limits[max(0, rapid.IntRange(-4, len(s.Limits)-1).Draw(g.T, "other limit"))]
			op := rapid.SampledFrom(fastOps).Draw(g.T, "op")
			g.Apply(op, s, limit, g.DrawCost(limit, g.Room(s, limit)))
		}
	}
	g.Compare()
}

func TestChangedPlans(t *testing.T) {
	t.Parallel()
	porttest.ChangedPlans(t, withClock(redistest.Server(t).Client(t)))
}

func TestHoldsOfJumps(t *testing.T) {
	t.Parallel()
	porttest.HoldsOfJumps(t, withClock(redistest.Server(t).Client(t)))
}

func TestTraces(t *testing.T) {
	t.Parallel()
	porttest.Traces(t, withClock(redistest.Server(t).Client(t)))
}
