package memstore

import (
	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
)

// Parts of a job's record.
const (
	partState  = iota // of a key
	partReset         // the same, and what was forgotten of the key is freed
	partTake          // a take that was admitted
	partForget        // the state of a key that loses its slot
	partSettlement
)

// record records what the job is about to publish.
func (j *job) record(now rule.Micros) {
	k := j.store.keeper
	if !k.recording() || j.inspected != nil || j.op == rule.Peek {
		return
	}
	e := encoder{j.bytes[:0]}
	e.int(int64(now))
	start := len(e.buf)
	if j.memo.Changed { // first: if the rest does not fit into the same record, nothing can be given back twice
		e.int(partSettlement)
		e.settlement(j.settling.key, j.settling.life, j.memo.Record)
	}
	if k.pause != nil {
		k.pause("claimed")
		defer k.pause("recorded")
	}
	for i := range j.claims {
		j.recordClaim(&e, i)
		if len(e.buf) > journal.MaxBody/2 { // dozens of logs of thousands of units
			k.journal.Append(kindJob, e.buf)
			e.buf, j.recorded = e.buf[:start], true
		}
	}
	if len(e.buf) > start {
		k.journal.Append(kindJob, e.buf)
		j.recorded = true
	}
	if j.bytes = e.buf; cap(j.bytes) > mostKept {
		j.bytes = nil
	}
}

// mostKept is the most memory for records that a job keeps for the next one.
const mostKept = 16 << 10

func (j *job) recordClaim(e *encoder, i int) {
	c := &j.claims[i]
	changed := j.items[i].Changed
	if c.evicts && (changed || j.wouldHide(c)) {
		e.part(partForget, c.plan.tag, c.victim)
		e.state(c.plan.limit.Algorithm, &c.lost)
	}
	switch {
	case c.copied:
		e.part(partTake, c.plan.tag, c.h)
		e.int(c.cost)
		return
	case c.freed:
		e.part(partReset, c.plan.tag, c.h)
	case changed || j.op == rule.Reset:
		e.part(partState, c.plan.tag, c.h)
	default:
		return
	}
	state := &c.state
	if c.slot < 0 { // only what is held of it is stored
		state = &rule.State{Start: rule.Absent, Holds: c.state.Holds}
	}
	e.state(c.plan.limit.Algorithm, state)
}

func (e *encoder) part(what int64, tag uint32, h uint64) {
	e.int(what)
	e.int(int64(tag))
	e.hash(h)
}

// recordForgotten records that a key loses its slot for another reason than a request for its space.
func (t *table) recordForgotten(h uint64, s *rule.State, now rule.Micros) {
	if k := t.store.keeper; k.recording() {
		e := encoder{}
		e.int(int64(now))
		e.part(partForget, t.tag.Load(), h)
		e.state(t.limit.Algorithm, s)
		k.journal.Append(kindJob, e.buf)
	}
}

// recordDocument records a document. The caller holds s.mu.
func (s *Store) recordDocument(name string, d document) {
	if s.keeper != nil {
		e := encoder{}
		e.document(name, d)
		s.keeper.journal.Append(kindDocument, e.buf)
	}
}
