package observe

import (
	"errors"
	"sync"
	"testing"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Two processors may get the same lane: no count is lost then either.
func TestSharedLane(t *testing.T) {
	const workers, each = 4, 100_000
	limit, err := adapter.Bind("", slidegate.PerSecond(1))
	if err != nil {
		t.Fatal(err)
	}
	counts := newTally(1, (*store.Limit).Namespace)
	down := errors.New("down")
	request := func(op rule.Op) *store.Request {
		return &store.Request{
			Op: op, Charges: []store.Charge{{Limit: limit, Cost: 2}},
			Answers: []rule.Answer{{Allowed: true, Granted: 2, Flags: rule.Inherited}},
		}
	}
	take, giveBack := request(rule.Take), request(rule.GiveBack)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for range each {
				counts.countSingle(limit, 0, true, 0, 3, nil)
				counts.countSingle(limit, 0, false, rule.ClockMoved, 3, nil)
				counts.countSingle(limit, 0, false, 0, 3, down)
				counts.countRequest(take, 0)
				counts.countRequest(giveBack, 0)
			}
		})
	}
	working.Wait()
	s := counts.seriesOf(limit)
	for name, c := range map[string]struct{ got, want int64 }{
		"allowed":    {s.sum(allowedBy + fromStore), 2},
		"refused":    {s.sum(refusedBy + fromStore), 1},
		"failed":     {s.sum(failed), 1},
		"granted":    {s.sum(granted), 3 + 2},
		"given back": {s.sum(givenBack), 2},
		"inherited":  {s.sum(inherited), 2},
		"moved":      {s.sum(clockMoved), 1},
		"errors":     {counts.errors[otherKind].Load(), 1},
	} {
		if c.got != c.want*workers*each {
			t.Errorf("%s: got %d, want %d", name, c.got, c.want*workers*each)
		}
	}
}

// The counts of the most common decisions share a cache line.
func TestLayout(t *testing.T) {
	const cellsInALine = 64 / 8
	for _, count := range []int{granted, allowedBy + fromStore, refusedBy + fromStore} {
		if count >= cellsInALine {
			t.Errorf("count %d is in another cache line", count)
		}
	}
}

// What a failure policy admits without charging is a decision, but not a unit; what it decides in the process is
// charged there.
func TestUnchargedUnits(t *testing.T) {
	limit, err := adapter.Bind("", slidegate.PerSecond(1))
	if err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[rule.Flags]int64{
		0: 2, rule.Inherited: 2, rule.FallbackLocal: 2, rule.FallbackOpen: 0, rule.FallbackClosed: 0, rule.FallbackOpen | rule.ClockMoved: 0,
	} {
		request := func(op rule.Op) *store.Request {
			return &store.Request{
				Op: op, Charges: []store.Charge{{Limit: limit, Cost: 2}}, Answers: []rule.Answer{{Allowed: true, Granted: 2, Flags: flags}},
			}
		}
		counts := newTally(1, (*store.Limit).Namespace)
		s := counts.seriesOf(limit)
		counts.countSingle(limit, 0, true, flags, 2, nil)
		one := s.sum(granted)
		counts.countRequest(request(rule.Take), 0)
		take := s.sum(granted) - one
		counts.countRequest(request(rule.TakeUpTo), 0)
		upTo := s.sum(granted) - one - take
		counts.countRequest(request(rule.GiveBack), 0)
		if back := s.sum(givenBack); one != want || take != want || upTo != want || back != want {
			t.Errorf("%b: one %d, take %d, take up to %d, give back %d, want %d units each", flags, one, take, upTo, back, want)
		}
		if allowed := s.sum(allowedBy + sourceOf(flags)); allowed != 3 {
			t.Errorf("%b: %d decisions, want 3", flags, allowed)
		}
	}
}
