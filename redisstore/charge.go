package redisstore

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/internal/port"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// Flags of a request and a charge.
const (
	sendRemembered = 1 << iota // the request is remembered
	sendOnce
	sendHolding // the charge holds its units
	sendID      // the reservation's ID follows, and how long its units are held
	sendWhole   // the reply has all of the state
)

// calendarByte is which byte of a packed limit says whether a calendar follows.
const calendarByte = 3

// appendLimit packs a limit and a charge for the script, in 65 bytes. The charge is one of charges in a request.
func appendLimit(to []byte, charge *store.Charge, op rule.Op, charges int, flags byte) []byte {
	l := charge.Limit.Rule()
	part := l.Window
	if l.Segments > 0 {
		part /= rule.Micros(l.Segments)
	}
	to = append(to, byte(op), byte(charges), byte(statecode.Code(l.Algorithm)), bit(l.Calendar != 0), flags,
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
	flags := sendRemembered*bit(memoryOf(r) > 0) + sendOnce*bit(r.Once) + sendHolding*bit(holds(r, l)) + sendID*bit(l.Hold > 0 || r.Once)
	to = appendLimit(to, charge, r.Op, len(r.Charges), flags)
	switch {
	case l.Algorithm == rule.InFlight:
		to = appendID(to, r.ID)
	case flags&sendID != 0:
		to = appendNumber(appendID(to, r.ID), int64(l.Hold))
	}
	if r.Op == rule.Settle {
		to = appendNumber(to, charge.Used)
	}
	if l.Calendar != 0 {
		for _, start := range port.PeriodsAround(l, max(0, s.clock()+rule.Micros(s.ahead.Load()))) {
			to = appendNumber(to, int64(start))
		}
	}
	return to
}

// appendMemory packs how an ID is remembered: for how long, the maximum number, its earliest time, and the ID.
func appendMemory(to []byte, r *store.Request) []byte {
	var at rule.Micros // see rule.SettledAt
	for i := range r.Charges {
		if r.Charges[i].Limit.Rule().Algorithm != rule.InFlight {
			at = max(at, min(r.Charges[i].At, rule.MaxNow))
		}
	}
	memory, most := r.Memory()
	for _, n := range [...]int64{int64(memory), most, int64(at)} {
		to = appendNumber(to, n)
	}
	return appendID(to, r.ID)
}

// memoryOf returns how long a request has to be remembered, or 0 if it need not be.
func memoryOf(r *store.Request) (memory rule.Micros) {
	memory, _ = r.Memory()
	return memory
}

// holds reports whether a request holds its units of a limit instead of charging them.
func holds(r *store.Request, l *rule.Limit) bool { return r.Hold && l.Hold > 0 && r.Op == rule.Take }

func appendID(to []byte, id rule.ID) []byte { return binary.LittleEndian.AppendUint64(to, uint64(id)) }
