package redisstore

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// appendLimit packs a limit and a charge for the script, in 65 bytes. The charge is one of charges in a request, which
// may be remembered.
func appendLimit(to []byte, charge *store.Charge, op rule.Op, charges int, remembered bool) []byte {
	l := charge.Limit.Rule()
	part := l.Window
	if l.Segments > 0 {
		part /= rule.Micros(l.Segments)
	}
	to = append(to, byte(op), byte(charges), byte(statecode.Code(l.Algorithm)), bit(l.Calendar != 0), bit(remembered),
		byte(l.Overlap), bit(l.Anchor == rule.AnchorFirst), bit(l.CountRefused), bit(l.StartsInParts(0)))
	for _, n := range [...]int64{l.Quota, int64(l.Window), charge.Cost, int64(l.Parts()), int64(part), l.Burst, int64(charge.At)} {
		to = appendNumber(to, n)
	}
	return to
}

// appendCharge packs the j-th charge of a request for decide.lua.
func (s *Store) appendCharge(to []byte, r *store.Request, j int) []byte {
	charge := &r.Charges[j]
	l := charge.Limit.Rule()
	to = appendLimit(to, charge, r.Op, len(r.Charges), memoryOf(r) > 0)
	if l.Algorithm == rule.InFlight {
		to = appendID(to, r.ID)
	}
	if r.Op == rule.Settle {
		to = appendNumber(to, charge.Used)
	}
	if l.Calendar != 0 {
		for _, start := range s.calendar.starts(charge.Limit, s.clock()) {
			to = appendNumber(to, int64(start))
		}
	}
	return to
}

// appendMemory packs how a settlement is remembered: for how long, the maximum number, its earliest time, and the
// reservation's ID.
func appendMemory(to []byte, r *store.Request) []byte {
	var settlements int64
	var at rule.Micros // see rule.SettledAt
	for i := range r.Charges {
		l := r.Charges[i].Limit.Rule()
		if settlements = max(settlements, l.Settlements()); l.Algorithm != rule.InFlight {
			at = max(at, min(r.Charges[i].At, rule.MaxNow))
		}
	}
	for _, n := range [...]int64{int64(memoryOf(r)), settlements, int64(at)} {
		to = appendNumber(to, n)
	}
	return appendID(to, r.ID)
}

// memoryOf returns how long a request has to be remembered, or 0 if it need not be.
func memoryOf(r *store.Request) (memory rule.Micros) {
	memory, _ = r.Memory()
	return memory
}

func appendID(to []byte, id rule.ID) []byte { return binary.LittleEndian.AppendUint64(to, uint64(id)) }
