package rule

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// What was charged and still counts, worked out by hand.
func TestUsage(t *testing.T) {
	parts := Limit{Algorithm: SlidingWindow, Quota: 10, Window: minute, Segments: 2}
	down := parts
	down.Overlap = OverlapDown
	for _, c := range []struct {
		name  string
		limit Limit
		takes []step
		now   Micros
		want  Usage
	}{
		{"parts", parts, []step{{at: 10 * second, cost: 3}, {at: 40 * second, cost: 4}, {at: 50 * second, cost: 1}}, 80 * second, Usage{
			// The window begins at 20 s: a third of the first part is in it, which makes 1 of its 3. Rounded up, it is 1 until all of it has left.
			Kept: SlidingWindow, Used: 6, Charged: []Charged{
				{From: 0, To: 30 * second, Units: 3, Counts: 1, Frees: 90 * second}, {From: 30 * second, To: 60 * second, Units: 5, Counts: 5, Frees: 120 * second},
			},
		}},
		{"rounded down", down, []step{{at: 10 * second, cost: 3}}, 70 * second, Usage{
			// 20 s of the part are covered, two thirds. Less than one of the 3 counts when less than 10 s are.
			Kept: SlidingWindow, Used: 2, Charged: []Charged{{From: 0, To: 30 * second, Units: 3, Counts: 2, Frees: 80*second + 1}},
		}},
		{"fixed", Limit{Algorithm: FixedWindow, Quota: 10, Window: minute, Anchor: AnchorFirst}, []step{{at: 10 * second, cost: 3}}, 69 * second, Usage{
			Kept: FixedWindow, Used: 3, Charged: []Charged{{From: 10 * second, To: 70 * second, Units: 3, Counts: 3, Frees: 70 * second}},
		}},
		{"day", Limit{Calendar: Day, Zone: "Europe/Berlin", Quota: 10}, []step{{at: 10 * second, cost: 3}}, 20 * second, Usage{
			Kept: FixedWindow, Used: 3, Charged: []Charged{{From: -60 * minute, To: 23 * 60 * minute, Units: 3, Counts: 3, Frees: 23 * 60 * minute}},
		}},
		{"log", Limit{Quota: 10, Window: minute}, []step{{at: 1, cost: 3}, {at: 10 * second, cost: 2}, {at: 11 * second, cost: 1}}, minute + 1, Usage{
			Kept: SlidingLog, Used: 3, Charged: []Charged{
				{From: 10 * second, To: 10 * second, Units: 2, Counts: 2, Frees: 70 * second}, {From: 11 * second, To: 11 * second, Units: 1, Counts: 1, Frees: 71 * second},
			},
		}},
		{"bucket", Limit{Algorithm: TokenBucket, Quota: 60, Window: minute, Burst: 10}, []step{{at: 10 * second, cost: 8}}, 12*second + 500*milli, Usage{
			// 2.5 were refilled, so that 5.5 are missing, and no sixth unit is there.
			Kept: TokenBucket, Used: 6, Charged: []Charged{{From: 12*second + 500*milli, To: 12*second + 500*milli, Units: 6, Counts: 6, Frees: 18 * second}},
		}},
		{"slots", Limit{Algorithm: InFlight, Quota: 3, Window: minute}, []step{{at: 1, cost: 1, id: 7}, {at: 2, cost: 1, id: 8}, {at: 3, op: Renew, id: 7}}, 10, Usage{
			Kept: InFlight, Used: 2, Charged: []Charged{
				{From: 2, To: 2, Units: 1, Counts: 1, Frees: minute + 2, ID: 8}, {From: 3, To: 3, Units: 1, Counts: 1, Frees: minute + 3, ID: 7},
			},
		}},
		{"holds", Limit{Quota: 10, Window: minute, Hold: 30 * second}, []step{{at: 1, cost: 3, id: 7, hold: true}, {at: 2, cost: 2}}, 10, Usage{
			Kept: SlidingLog, Used: 5, Charged: []Charged{{From: 2, To: 2, Units: 2, Counts: 2, Frees: minute + 2}},
			Held: []Hold{{ID: 7, Units: 3, Ends: 30*second + 1, Length: 30 * second}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := c.limit.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			var s State
			for _, st := range c.takes {
				if a, _, _ := decideStep(t, &l, &s, st); !a.Allowed {
					t.Fatalf("%+v was refused", st)
				}
			}
			got := l.Usage(&s, c.now)
			if len(got.Held) == 0 {
				got.Held = nil
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// What counts is what a peek says is used, and units count until the time at which they are said to leave, and no longer.
func TestUsageIsWhatDecides(t *testing.T) {
	property(t, 4_000, func(t *rapid.T) {
		l := drawLimit(t)
		s, now := drawUsed(t, &l, drawOrigin(t, &l))
		before := s.Clone()
		u := l.Usage(&s, now)
		if !sameState(&s, &before) {
			t.Fatalf("the state changed from %+v to %+v", before, s)
		}
		counts, held := sums(&u)
		if counts+held != u.Used || u.Used != l.Used(&s, now) {
			t.Fatalf("%+v\n%+v\nat %d: got %+v, want %d used", l, s, now, u, l.Used(&s, now))
		}
		if v := l.viewAt(&s, now); v.Moved || v.ahead {
			return // its times begin again with every look
		}
		for _, c := range u.Charged {
			if c.Counts < 1 || c.Counts > c.Units || c.From > c.To || c.Frees <= now {
				t.Fatalf("%+v\n%+v\nat %d: got %+v", l, s, now, c)
			}
			for later, want := range map[Micros]bool{c.Frees - 1: true, c.Frees: false} {
				if later < now || later > MaxNow {
					continue
				}
				at := l.Usage(&s, later)
				if found := hasCharged(&at, &c); found != want && l.Algorithm != TokenBucket || l.Algorithm == TokenBucket && (len(at.Charged) > 0) != want {
					t.Fatalf("%+v\n%+v\nat %d: got %+v; at %d: got %+v, want it to count: %v", l, s, now, c, later, at.Charged, want)
				}
				if total, held := sums(&at); total+held != l.Used(&s, later) {
					t.Fatalf("%+v\n%+v\nat %d: got %+v, want %d used", l, s, later, at, l.Used(&s, later))
				}
			}
		}
	})
}

// sums returns how many units count, and how many are held.
func sums(u *Usage) (counts, held int64) {
	for _, c := range u.Charged {
		counts += c.Counts
	}
	for _, h := range u.Held {
		held = min(held+h.Units, MaxQuota)
	}
	return counts, held
}

// hasCharged reports whether units still count later.
func hasCharged(u *Usage, c *Charged) bool {
	for _, other := range u.Charged {
		if other.From == c.From && other.ID == c.ID && other.Frees == c.Frees {
			return true
		}
	}
	return false
}
