package memstore

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
)

// keeper records in a journal what a store changes, so that a process that dies forgets nothing that it has answered; see Open.
//
// Every change follows the same order: claim the slot, record, publish, answer. So no other request builds upon what is not recorded
// yet, and the records of one key are in the order in which it changed. What decides without a page's lock leaves a note: a request,
// which is decided again when the journal is replayed. All other requests leave one record of all that they change.
type keeper struct {
	journal *journal.Journal // nil while it is replayed
	synced  bool
	pause   func(point string) // for tests

	// gate is held for reading by every request that takes the locks of pages, from its decision until what it changed is published,
	// and for writing when a checkpoint begins. So each of them is either in the memory that the checkpoint copies, or recorded behind
	// its beginning. Those without locks need not hold it, because a checkpoint claims the slots that it copies.
	gate sync.RWMutex

	checkpointing sync.Mutex // held while there is one
	saved         int64      // bytes of the records of the running one

	lastTag uint32 // guarded by Store.mu

	stop, stopped chan struct{}
	once          sync.Once
	closed        error
}

// Kinds of records.
const (
	kindStore       uint8 = 1 + iota // what all records need: the key of the hashes
	kindLimit                        // a limit, and the tag that stands for it
	kindTake                         // what a note is too small for
	kindJob                          // all that one request changed
	kindKeys                         // of a checkpoint: states of keys
	kindForgotten                    // of a checkpoint: some of the forgotten keys of a limit
	kindFreed                        // of a checkpoint: keys that were reset after they had been forgotten
	kindSettlements                  // of a checkpoint
	kindDocument
)

// A note is the hash of a key and a word: the time in its low bits, whether the request was admitted, and its cost.
const (
	noteTimeBits = 53
	noteAdmitted = 1 << noteTimeBits
	noteCostAt   = noteTimeBits + 1
	noteMaxCost  = 1<<(64-noteCostAt) - 1
)

// maxTag is the largest tag of a note.
const maxTag = 1<<28 - 1

// maxTags is how many limits of one shape have tags of their own. Requests under further ones are recorded by their outcome.
const maxTags = 1024

// notes are the notes of takes under one limit.
type notes struct {
	keeper *keeper
	tag    uint32
}

// take notes a take whose slot is claimed.
func (n *notes) take(h uint64, cost int64, now rule.Micros, admitted bool) {
	word := uint64(now)
	if admitted {
		word |= noteAdmitted
	}
	if n.keeper.pause != nil {
		n.keeper.pause("claimed")
		defer n.keeper.pause("recorded")
	}
	if cost <= noteMaxCost {
		n.keeper.journal.Note(n.tag, h, word|uint64(cost)<<noteCostAt)
		return
	}
	var body [28]byte
	binary.LittleEndian.PutUint64(body[:], h)
	binary.LittleEndian.PutUint64(body[8:], word)
	binary.LittleEndian.PutUint64(body[16:], uint64(cost))
	binary.LittleEndian.PutUint32(body[24:], n.tag)
	n.keeper.journal.Append(kindTake, body[:])
}

// kept returns once all that was recorded is as durable as it should be, and says so if it is not.
func (k *keeper) kept() rule.Flags {
	if k.synced && !k.journal.Wait(k.journal.End()) || k.journal.Failing() {
		return rule.NotDurable
	}
	return 0
}

// swap replaces the word of a slot that another request may have changed, if it has not. With notes, it notes an admission first, while
// the slot has the word claimed.
func (n *notes) swap(slot *atomic.Uint64, word, claimed, next, h uint64, cost int64, now rule.Micros) bool {
	if n == nil {
		return slot.CompareAndSwap(word, next)
	}
	return n.swapNoted(slot, word, claimed, next, h, cost, now)
}

func (n *notes) swapNoted(slot *atomic.Uint64, word, claimed, next, h uint64, cost int64, now rule.Micros) bool {
	if !slot.CompareAndSwap(word, claimed) {
		return false
	}
	n.take(h, cost, now, true)
	publish(slot, next)
	return true
}

// tagOf returns the tag of a limit of the table, which its first use records. Without one of its own it shares another's, and own is
// false. The caller holds s.mu.
func (s *Store) tagOf(t *table, limit *rule.Limit) (tag uint32, own bool) {
	if s.keeper == nil {
		return 0, false
	}
	if tag, own = t.tags[*limit]; own {
		return tag, true
	}
	if len(t.tags) >= maxTags {
		return t.tag.Load(), false
	}
	s.keeper.lastTag++
	t.addTag(*limit, s.keeper.lastTag)
	if s.keeper.journal != nil {
		e := encoder{}
		e.tag(t, limit, s.keeper.lastTag)
		s.keeper.journal.Append(kindLimit, e.buf)
	}
	return s.keeper.lastTag, true
}

func (t *table) addTag(limit rule.Limit, tag uint32) {
	if t.tags == nil {
		t.tags = map[rule.Limit]uint32{}
	}
	t.tags[limit] = tag
	t.tag.CompareAndSwap(0, tag)
}

func (e *encoder) tag(t *table, limit *rule.Limit, tag uint32) {
	e.int(int64(tag))
	e.text(t.id.namespace)
	e.text(t.id.name)
	e.limit(limit)
	e.int(t.counts.held.Load())
}

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
	if k == nil || k.journal == nil || j.inspected != nil || j.op == rule.Peek {
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
	case j.op == rule.Reset:
		e.part(partReset, c.plan.tag, c.h)
	case changed:
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
	if k := t.store.keeper; k != nil && k.journal != nil {
		e := encoder{}
		e.int(int64(now))
		e.part(partForget, t.tag.Load(), h)
		e.state(t.limit.Algorithm, s)
		k.journal.Append(kindJob, e.buf)
	}
}

// kept is keeper.kept, if there is one.
func (s *Store) kept() rule.Flags {
	if s.keeper == nil {
		return 0
	}
	return s.keeper.kept()
}

// recordDocument records a document. The caller holds s.mu.
func (s *Store) recordDocument(name string, d document) {
	if s.keeper != nil {
		e := encoder{}
		e.document(name, d)
		s.keeper.journal.Append(kindDocument, e.buf)
	}
}
