package failure

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// noRoom remembers answers of the store that left no room, each until there is some if nothing else arrives: a key that was refused
// just before an outage is not admitted in it. One key may push another out, which is then as if it had not been asked for: what
// is admitted stays within its bound without these notes.
type noRoom struct {
	seed  maphash.Seed
	notes [4096]atomic.Pointer[note]
}

// note is an answer without room.
type note struct {
	address
	room  int64 // there was room for so many
	until rule.Micros
}

func (n *noRoom) place(at address) *atomic.Pointer[note] {
	return &n.notes[maphash.Comparable(n.seed, at)%uint64(len(n.notes))]
}

// slack is by how much the end of a note may be later without the note being written again: a cache repeats a refusal at every
// request.
const slack = rule.Micros(1000)

// hear notes an answer that leaves so much room, for so long.
func (n *noRoom) hear(at address, room int64, after, now rule.Micros) {
	if after <= 0 || after == rule.Never {
		return
	}
	place, until := n.place(at), now+after
	if known := place.Load(); known != nil && known.address == at && known.room == room && known.until >= until-slack {
		return
	}
	at.group, at.key = strings.Clone(at.group), strings.Clone(at.key)
	place.Store(&note{at, room, until})
}

// forget forgets an address that units were given back to.
func (n *noRoom) forget(at address) {
	place := n.place(at)
	if known := place.Load(); known != nil && known.address == at {
		place.CompareAndSwap(known, nil)
	}
}

// of returns for how much there was room, if there was too little, and for how long that holds.
func (n *noRoom) of(at address, now rule.Micros) (room int64, rest rule.Micros) {
	known := n.place(at).Load()
	if known == nil || known.address != at || now >= known.until {
		return rule.MaxQuota, 0
	}
	return known.room, known.until - now
}

// hearAll notes what the store answered to requests.
func (n *noRoom) hearAll(batch []store.Request, now rule.Micros) {
	for i := range batch {
		r := &batch[i]
		if fromStore, _ := takenFrom(r.Charges); r.Err != nil || !fromStore {
			continue
		}
		for k := range r.Charges {
			a, at := &r.Answers[k], addressOf(r.Group, &r.Charges[k])
			switch r.Op {
			case rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge:
				n.hear(at, a.Remaining, a.After(), now)
			case rule.GiveBack, rule.Settle, rule.Reset:
				n.forget(at)
			}
		}
	}
}
