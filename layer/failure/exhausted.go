package failure

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// exhausted remembers answers of the store that left too few units, each until units become free if nothing else arrives:
// a key that was denied just before an outage is not admitted in it. One key may replace another, which is then treated
// as unknown: what is admitted stays within its bound without these notes.
type exhausted struct {
	seed  maphash.Seed
	notes [4096]atomic.Pointer[note]
}

// note is a remembered answer.
type note struct {
	address
	remaining int64 // units that remained
	until     rule.Micros
}

func (n *exhausted) cell(at address) *atomic.Pointer[note] {
	return &n.notes[maphash.Comparable(n.seed, at)%uint64(len(n.notes))]
}

// slack is how much later a note may end without being rewritten: a cache repeats a denial at every request.
const slack = rule.Micros(1000)

// record notes an answer that leaves remaining units for the time after.
func (n *exhausted) record(at address, remaining int64, after, now rule.Micros) {
	if after <= 0 || after == rule.Never {
		return
	}
	cell, until := n.cell(at), now+after
	if known := cell.Load(); known != nil && known.address == at && known.remaining == remaining && known.until >= until-slack {
		return
	}
	at.group, at.key = strings.Clone(at.group), strings.Clone(at.key)
	cell.Store(&note{at, remaining, until})
}

// forget forgets the note of an address that units were returned to.
func (n *exhausted) forget(at address) {
	cell := n.cell(at)
	if known := cell.Load(); known != nil && known.address == at {
		cell.CompareAndSwap(known, nil)
	}
}

// lookup returns how many units remained, if they were too few, and for how long that holds. Without a note it returns
// rule.MaxQuota.
func (n *exhausted) lookup(at address, now rule.Micros) (remaining int64, rest rule.Micros) {
	known := n.cell(at).Load()
	if known == nil || known.address != at || now >= known.until {
		return rule.MaxQuota, 0
	}
	return known.remaining, known.until - now
}

// recordAll notes the store's answers to requests.
func (n *exhausted) recordAll(batch []store.Request, now rule.Micros) {
	for i := range batch {
		r := &batch[i]
		if fromStore, _ := takenFrom(r.Charges); r.Err != nil || !fromStore {
			continue
		}
		for k := range r.Charges {
			a, at := &r.Answers[k], addressOf(r.Group, &r.Charges[k])
			switch r.Op {
			case rule.Take, rule.TakeUpTo, rule.Peek, rule.Charge:
				n.record(at, a.Remaining, a.After(), now)
			case rule.GiveBack, rule.Settle, rule.Reset:
				n.forget(at)
			}
		}
	}
}
