package pgstore

import (
	"errors"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// The general path: any operations over any limits, decided by the function decide, or by decide_one if there is only one
// address.

const (
	header      = 5  // numbers before those of the charges
	plainStride = 14 // numbers per charge
	longStride  = 24 // with those that only reservations and calendars need
	bounds      = 18 // where those of a calendar begin
)

// Whether decide locks all rows of a call together.
const (
	lockNone    = iota // each is written only if it has not changed
	lockToWrite        // if anything is to be written, and then everything is decided again
	lockFirst          // before anything is read
)

var errOutside = errors.New("pgstore: the server's clock jumped to another calendar period between two calls; try again")

// plan encodes a batch for decide, or for decide_one if that can decide it, and reports which.
func (t *roundTrip) plan(s *Store, batch []store.Request) (one bool) {
	locked, stride := int64(lockNone), plainStride
	for i := range t.parts {
		a := &t.parts[i]
		r := &batch[a.request]
		t.addresses = append(t.addresses, a.address)
		l := r.Charges[a.of].Limit.Rule()
		if memory, _ := r.Memory(); memory > 0 {
			locked = lockFirst
		} else if a.of > 0 {
			locked = max(locked, lockToWrite)
		}
		if r.Op == rule.Settle || r.Once || l.Hold > 0 || l.Algorithm == rule.InFlight || l.Calendar != 0 {
			stride = longStride
		}
	}
	slices.Sort(t.addresses)
	t.addresses = slices.Compact(t.addresses)
	t.numbers = append(t.numbers, s.now(), s.commit(), int64(len(t.parts)), locked, int64(stride))
	for i := range t.parts {
		t.planCharge(batch, &t.parts[i])
		if stride == longStride {
			t.planReservation(&batch[t.parts[i].request], t.parts[i].of)
		}
	}
	if stride == longStride {
		now := rule.Micros(t.numbers[0])
		if now < 0 {
			now = rule.Micros(time.Now().UnixMicro())
		}
		t.planBounds(batch, now)
	}
	if len(t.addresses) == 1 && locked == lockNone {
		t.args = append(t.args, t.addresses[0], t.numbers)
		return true
	}
	t.args = append(t.args, t.addresses, t.numbers)
	return false
}

func (t *roundTrip) planCharge(batch []store.Request, a *part) {
	r := &batch[a.request]
	charge := &r.Charges[a.of]
	l := charge.Limit.Rule()
	part := l.Window
	if l.Segments > 0 {
		part /= rule.Micros(l.Segments)
	}
	index, _ := slices.BinarySearch(t.addresses, a.address)
	t.numbers = append(t.numbers,
		int64(index+1), int64(r.Op), int64(len(r.Charges)-a.of), int64(statecode.Code(l.Algorithm)), int64(l.Overlap), begins(l),
		bit(l.CountRefused), int64(l.Parts()), l.Quota, l.Burst, int64(l.Window), int64(part), charge.Cost, int64(charge.At))
}

// planReservation writes the numbers that only reservations have, and leaves space for a calendar.
func (t *roundTrip) planReservation(r *store.Request, of int) {
	memory, most := r.Memory()
	t.numbers = append(t.numbers, r.Charges[of].Used, int64(r.ID), int64(memory), most, 0, 0, 0, 0,
		int64(r.Charges[of].Limit.Rule().Hold), bit(r.Hold)+2*bit(r.Once))
}

// planBounds writes the calendar periods around now.
func (t *roundTrip) planBounds(batch []store.Request, now rule.Micros) {
	for i := range t.parts {
		l := batch[t.parts[i].request].Charges[t.parts[i].of].Limit.Rule()
		if l.Calendar == 0 {
			continue
		}
		for k, start := range port.PeriodsAround(l, now) {
			t.numbers[header+longStride*i+bounds+k] = int64(start)
		}
	}
}

// outside returns the server's time, and whether it lies outside the periods that were sent, so that nothing was
// decided.
func (t *roundTrip) outside() (now rule.Micros, outside bool) {
	if len(t.reply) != 2 || t.reply[0] != -1 {
		return 0, false
	}
	return rule.Micros(t.reply[1]), true
}

// begins returns how a state begins: 1 for windows that start at the first request, 2 for parts if no algorithm is named.
func begins(l *rule.Limit) int64 {
	return bit(l.Anchor == rule.AnchorFirst) + 2*bit(startsInParts(l))
}

// startsInParts reports whether any charge makes parts of what is kept under a limit that names no algorithm.
func startsInParts(l *rule.Limit) bool {
	return l.Algorithm == rule.DefaultAlgorithm && l.StartsInParts(1)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
