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
	if k := n.keeper; k.pause == nil && cost <= noteMaxCost {
		k.journal.Note(n.tag, h, word|uint64(cost)<<noteCostAt)
		return
	}
	n.takeSlowly(h, cost, word)
}

// takeSlowly is take for what a note is too small for, and for tests that pause.
func (n *notes) takeSlowly(h uint64, cost int64, word uint64) {
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

// recording reports whether there is a keeper, and nothing is being replayed.
func (k *keeper) recording() bool { return k != nil && k.journal != nil }

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
	if s.keeper.recording() {
		e := encoder{}
		e.tag(t, limit, s.keeper.lastTag)
		s.keeper.journal.Append(kindLimit, e.buf)
	}
	return s.keeper.lastTag, true
}

func (t *table) addTag(limit rule.Limit, tag uint32) {
	t.tags[limit] = tag
	t.tag.CompareAndSwap(0, tag)
}

// decideKept decides the job, and returns once what it changed is kept.
func (j *job) decideKept(answers []rule.Answer) error {
	k := j.store.keeper
	if !k.recording() {
		return j.decide(answers)
	}
	if err := j.decideGated(k, answers); err != nil || !j.recorded && j.memory == 0 {
		return err
	}
	if flags := k.kept(); flags != 0 { // what another request with the same ID has done may have to be kept too
		for i := range j.claims {
			answers[i].Flags |= flags
		}
	}
	return nil
}

func (j *job) decideGated(k *keeper, answers []rule.Answer) error {
	k.gate.RLock()
	defer k.gate.RUnlock()
	return j.decide(answers)
}

// kept is keeper.kept, if there is one.
func (s *Store) kept() rule.Flags {
	if s.keeper == nil {
		return 0
	}
	return s.keeper.kept()
}
