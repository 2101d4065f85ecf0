package redisstore

import (
	"encoding/binary"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// appendCharge packs the j-th charge of a request as decide.lua unpacks it.
func (s *Store) appendCharge(to []byte, r *store.Request, j int) []byte {
	charge := &r.Charges[j]
	l := charge.Limit.Rule()
	part := l.Window
	if l.Algorithm == rule.SlidingWindow {
		part /= rule.Micros(l.Segments)
	}
	to = append(to, byte(r.Op), byte(len(r.Charges)), byte(l.Algorithm.Code()), byte(l.Overlap),
		bit(l.Anchor == rule.First), bit(l.CountDenied), bit(l.Calendar != rule.NoPeriod), bit(memoryOf(r) > 0))
	for _, n := range [...]int64{int64(l.Parts()), l.Quota, l.Burst, int64(l.Window), int64(part), charge.Cost, int64(charge.At)} {
		to = appendNumber(to, n)
	}
	if l.Algorithm == rule.InFlight {
		to = appendID(to, r.ID)
	}
	if r.Op == rule.Settle {
		to = appendNumber(to, charge.Used)
	}
	if l.Calendar != rule.NoPeriod {
		for _, start := range s.calendar.starts(charge.Limit, s.clock()) {
			to = appendNumber(to, int64(start))
		}
	}
	return to
}

// appendMemory packs how a settlement is remembered: for how long, how many of them, and the reservation's ID.
func appendMemory(to []byte, r *store.Request) []byte {
	var most int64
	for i := range r.Charges {
		most = max(most, r.Charges[i].Limit.Rule().Settlements())
	}
	return appendID(appendNumber(appendNumber(to, int64(memoryOf(r))), most), r.ID)
}

// memoryOf returns for how long a request has to be remembered; 0 if it need not.
func memoryOf(r *store.Request) (memory rule.Micros) {
	if r.Op != rule.Settle {
		return 0
	}
	for i := range r.Charges {
		memory = max(memory, r.Charges[i].Limit.Rule().Memory())
	}
	return memory
}

func appendID(to []byte, id rule.ID) []byte { return binary.LittleEndian.AppendUint64(to, uint64(id)) }
