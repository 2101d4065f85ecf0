package replay

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/rule"
)

// tally is the exact count of the units of one key in the window that ends at the newest unit. Limits are measured
// against it, whatever their quota. The zero value is empty. Entries are a few bytes each: the time since the previous
// entry and, unless it is 1, the number of units. The oldest entry is held in fields, so most keys need no list.
type tally struct {
	sum    int64       // units in the window
	oldest rule.Micros // the time of the oldest entry
	newest rule.Micros // the time of the newest entry
	units  int64       // the units of the oldest entry; 0 if there are no entries
	later  []byte      // the entries after the oldest
}

// forget drops the entries that have left the window at now. If the newest entry is more than a window ahead, the clock
// has jumped; the entries are moved back to now, as in the rule.
func (t *tally) forget(now, window rule.Micros) {
	if ahead := t.newest - now; t.units != 0 && ahead > window {
		t.oldest -= ahead
		t.newest = now
	}
	for t.units != 0 && t.oldest <= now-window {
		t.drop()
	}
}

// forgetFor drops the entries that no longer count for a limit at now: those that have left its window, or that belong
// to an earlier calendar period.
func (t *tally) forgetFor(now rule.Micros, limit *rule.Limit) {
	if limit.Calendar == 0 {
		t.forget(now, limit.Window)
		return
	}
	if t.newest-now > limit.Window {
		t.forget(now, limit.Window)
	}
	if t.units == 0 {
		return
	}
	start, _ := limit.Bounds(max(now, t.newest))
	for t.units != 0 && t.oldest < start {
		t.drop()
	}
}

// drop removes the oldest entry.
func (t *tally) drop() {
	t.sum -= t.units
	t.units = 0
	if len(t.later) == 0 {
		return
	}
	later, n := binary.Uvarint(t.later)
	t.later = t.later[n:]
	t.units = 1
	if later&1 != 0 {
		units, n := binary.Uvarint(t.later)
		t.later = t.later[n:]
		t.units = int64(units)
	}
	t.oldest += rule.Micros(later >> 1)
}

// add counts units at a time. A time before the newest entry is treated as the time of the newest entry.
func (t *tally) add(at rule.Micros, units int64) {
	if units == 0 {
		return
	}
	if t.units == 0 {
		t.oldest, t.newest = at, at
	}
	at = max(at, t.newest)
	switch later := uint64(at-t.newest) << 1; {
	case t.units == 0 || at == t.oldest && len(t.later) == 0:
		t.units += units
	case units == 1:
		t.later = binary.AppendUvarint(t.later, later)
	default:
		t.later = binary.AppendUvarint(binary.AppendUvarint(t.later, later|1), uint64(units))
	}
	t.newest = at
	t.sum += units
}
