package lease_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// timeline records how far the server's clock was ahead of the machine's: steps in order of time. Before the first step
// the clocks were equal.
type timeline []step

// step is a time at which the server's clock was set.
type step struct {
	wall  int64 // by the machine's clock
	ahead int64 // from then on, in nanoseconds
}

// epoch returns how many steps there were before a time.
func (tl timeline) epoch(wall int64) (n int) {
	for n < len(tl) && tl[n].wall <= wall {
		n++
	}
	return n
}

// ahead returns how far the server's clock was ahead after epoch steps.
func (tl timeline) ahead(epoch int) int64 {
	if epoch == 0 {
		return 0
	}
	return tl[epoch-1].ahead
}

// setBacks returns how often the server's clock was set back in the first steps: times are compared with one another
// only between two such steps.
func (tl timeline) setBacks(epoch int) (n int) {
	for e := 1; e <= epoch; e++ {
		if tl.ahead(e) < tl.ahead(e-1) {
			n++
		}
	}
	return n
}

// epochOf returns how many steps there were before a record. If the server's clock was set while the server handled the
// request, the server's own time decides.
func (tl timeline) epochOf(r record) int {
	if r.What == spent {
		return tl.epoch(r.Now)
	}
	best, least := 0, int64(-1)
	for e := tl.epoch(r.Sent); e <= tl.epoch(r.Now); e++ {
		at := int64(r.At)*1_000 - tl.ahead(e)
		if off := max(0, r.Sent-at, at-r.Now); least < 0 || off < least {
			best, least = e, off
		}
	}
	return best
}

// admission is a number of units that were admitted, at a time of the server's clock in nanoseconds.
type admission struct {
	stretch int
	time    int64
	units   int64
}

// admissions returns what was admitted of a limit. The time of a spend is what the server's clock showed when the layer
// read its own clock to check the spend. A spend from a lease that was charged since the last step is not earlier than that
// charge.
func (tl timeline) admissions(all []record, limit string) (found []admission) {
	for _, r := range all {
		if r.Limit != limit || r.What != spent && r.What != direct && r.What != canceled {
			continue
		}
		e := tl.epochOf(r)
		a := admission{tl.setBacks(e), int64(r.At) * 1_000, r.Units}
		switch r.What {
		case canceled: // it does not count, in the part that it was charged in
			a.units = -a.units
		case spent:
			seen := r.Now + tl.ahead(e)
			if tl.epoch(r.Sent) == e {
				seen = max(seen, a.time)
			}
			a.time = seen
		}
		found = append(found, a)
	}
	slices.SortFunc(found, func(a, b admission) int {
		return cmp.Or(cmp.Compare(a.stretch, b.stretch), cmp.Compare(a.time, b.time))
	})
	return found
}

// maxInWindow returns the maximum number of units that were admitted within any window, wherever it starts.
func maxInWindow(sorted []admission, window time.Duration) (units int64) {
	sum, oldest := int64(0), 0
	for i, a := range sorted {
		sum += a.units
		for o := sorted[oldest]; o.stretch != a.stretch || o.time <= a.time-int64(window); o = sorted[oldest] {
			sum -= o.units
			oldest++
		}
		if i+1 < len(sorted) && sorted[i+1].stretch == a.stretch && sorted[i+1].time == a.time {
			continue // a canceled spend has the time at which it was spent
		}
		units = max(units, sum)
	}
	return units
}

// maxInParts is like maxInWindow for a window whose first and last parts both count in full, as the rule counts them.
func maxInParts(sorted []admission, limit slidegate.Limit) int64 {
	part := int64(limit.Window) / int64(limit.Segments)
	whole := slices.Clone(sorted)
	for i := range whole {
		whole[i].time -= whole[i].time % part
	}
	return maxInWindow(whole, limit.Window+time.Duration(part))
}

// checkLeases checks that no process has spent or returned more than it was granted, in any part of the window.
func checkLeases(all []record, limit slidegate.Limit) error {
	type place struct {
		process int
		part    rule.Micros
	}
	left := map[place]int64{}
	part := rule.Micros(limit.Window.Microseconds()) / rule.Micros(limit.Segments)
	for _, r := range all {
		if r.Limit != limit.Name {
			continue
		}
		p := place{r.Process, r.At - r.At%part}
		switch r.What {
		case granted:
			left[p] += r.Units
		case spent, returning:
			left[p] -= r.Units
		}
	}
	for p, units := range left {
		if units < 0 {
			return fmt.Errorf("%s: process %d spent and returned %d more than it was granted in the part from %d", limit.Name, p.process, -units, p.part)
		}
	}
	return nil
}

// checkEnds checks that leases were spent only in the part of the window that they were charged in. A lease that was
// requested before the server's clock was set is exempt. The times of charges may be behind the server's clock by skew.
func (tl timeline) checkEnds(all []record, limit slidegate.Limit, skew time.Duration) error {
	part := int64(limit.Window) / int64(limit.Segments)
	for _, r := range all {
		e := tl.epoch(r.Now)
		if r.What != spent || r.Limit != limit.Name || tl.epoch(r.Sent) != e {
			continue
		}
		at := int64(r.At) * 1_000
		if end := at - at%part + part + int64(skew); r.Now+tl.ahead(e) >= end {
			return fmt.Errorf("%s: process %d spent a lease %v after the end of its part", limit.Name, r.Process, time.Duration(r.Now+tl.ahead(e)-end))
		}
	}
	return nil
}

// outstanding returns how many units were leased, or being returned, when the server's clock was set for the n-th time. A spend
// that may have been later counts as later.
func (tl timeline) outstanding(all []record, limit string, n int) (units int64) {
	for _, r := range all {
		switch {
		case r.Limit != limit:
		case r.What == granted && tl.epochOf(r) < n:
			units += r.Units
		case (r.What == spent || r.What == returned) && tl.epoch(r.Now+int64(maxClockError)) < n:
			units -= r.Units
		}
	}
	return units
}

// The check detects one unit too many in a window, a part that is counted too late, and a lease that was returned
// twice.
func TestCheckDetectsExcess(t *testing.T) {
	t.Parallel()
	limit := slidegate.Limit{Name: "l", Quota: 10, Window: time.Second, Segments: 4}
	const second, milli = int64(time.Second), int64(time.Millisecond)
	base := 1_767_000_000 * second
	at := func(after int64) rule.Micros { return rule.Micros((base + after) / 1_000) }
	spend := func(after, charged, units int64) record {
		return record{What: spent, Limit: "l", Units: units, At: at(charged), Sent: base + charged - milli, Now: base + after}
	}
	take := func(after, units int64) record {
		return record{What: direct, Limit: "l", Units: units, At: at(after), Sent: base + after - milli, Now: base + after + milli}
	}
	for _, c := range []struct {
		name           string
		steps          timeline
		all            []record
		window, parted int64
	}{
		{"within a window", nil, []record{take(0, 4), spend(999*milli, 900*milli, 6)}, 10, 10},
		{"exactly a window apart", nil, []record{take(0, 4), spend(second, second-milli, 6)}, 6, 10},
		{"a window and a part apart", nil, []record{take(0, 4), take(1_250*milli, 6)}, 6, 6},
		{"undone", nil, []record{spend(5, 0, 4), spend(5, 0, -4), spend(6, 0, 3)}, 3, 3},
		{"not before the charge", nil, []record{take(0, 4), spend(second-milli, second, 6)}, 6, 10},
		{"over a step ahead", timeline{{base + 10, 2 * second}}, []record{spend(5, 0, 4), spend(15, 0, 6)}, 6, 6},
		{"over a small step ahead", timeline{{base + 10, 100 * milli}}, []record{spend(5, 0, 4), spend(15, 0, 6)}, 10, 10},
		{"over a step back", timeline{{base + 10, -milli}}, []record{spend(5, 0, 4), spend(15, 0, 6)}, 6, 6},
		{
			"answered during a step", timeline{{base + 2*milli, 5 * second}},
			[]record{take(0, 4), {What: direct, Limit: "l", Units: 5, At: at(5*second + 2*milli), Sent: base + milli, Now: base + 3*milli}}, 5, 5,
		},
	} {
		found := c.steps.admissions(c.all, "l")
		if window, parted := maxInWindow(found, limit.Window), maxInParts(found, limit); window != c.window || parted != c.parted {
			t.Errorf("%s: %d in a window and %d in its parts, want %d and %d", c.name, window, parted, c.window, c.parted)
		}
	}
	block := []record{{What: granted, Limit: "l", Units: 5, At: at(0), Sent: base, Now: base + 1}, spend(5, 0, 3), {What: returning, Limit: "l", Units: 2, At: at(0)}}
	if err := checkLeases(block, limit); err != nil {
		t.Error(err)
	}
	if err := checkLeases(append(block, block[2]), limit); err == nil {
		t.Error("a lease that was returned twice was not detected")
	}
	if err := (timeline{}).checkEnds([]record{spend(249*milli, 0, 1)}, limit, 0); err != nil {
		t.Error(err)
	}
	if err := (timeline{}).checkEnds([]record{spend(250*milli, 0, 1)}, limit, 0); err == nil {
		t.Error("a spend after the end of the part was not detected")
	}
	steps := timeline{{base + 10*milli, second}}
	if err := steps.checkEnds([]record{spend(20*milli, 0, 1)}, limit, 0); err != nil {
		t.Error(err)
	}
	if got := steps.outstanding(append(block, spend(20*milli, 0, 1)), "l", 1); got != 2 {
		t.Errorf("got %d leased, want 2", got)
	}
}
