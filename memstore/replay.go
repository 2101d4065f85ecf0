package memstore

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// replayer carries out the records of a journal. The store's clock shows the time of the record.
type replayer struct {
	store *Store
	plans map[uint32]*plan // by tag
	now   rule.Micros
	known bool // the store's key has been read

	dir   string
	ahead bool // its limits have been read in advance
}

// replay carries out a record.
func (r *replayer) replay(record journal.Record) error {
	d := newDecoder(record.Body)
	switch {
	case record.IsNote:
		r.note(d, record.Tag, record.A, record.B, int64(record.B>>noteCostAt))
	case record.Kind == kindStore:
		copy(r.store.key[:], d.Bytes(int64(len(r.store.key))))
		r.known = true
	case record.Kind == kindLimit:
		r.limit(d)
	case record.Kind == kindTake:
		h, word, cost, tag := d.key(), d.Uint64(), int64(d.Uint64()), d.Bytes(4)
		if d.Check(cost >= 0 && cost <= rule.MaxQuota); !d.Failed() {
			r.note(d, binary.LittleEndian.Uint32(tag), h, word, cost)
		}
	case record.Kind == kindJob:
		r.job(d)
	case record.Kind == kindKeys || record.Kind == kindForgotten || record.Kind == kindFreed:
		r.now = d.time()
		if p := r.planOf(d); p != nil {
			r.keys(record.Kind, p, d)
		}
	case record.Kind == kindSettlements:
		for d.More() {
			r.settlement(d)
		}
	case record.Kind == kindDocument:
		if name, doc := d.document(); !d.Failed() {
			r.store.documents[name] = doc
		}
	default:
		d.Fail(fmt.Errorf("unknown kind %d", record.Kind))
	}
	if d.More() {
		d.Fail(fmt.Errorf("%d bytes more than expected", len(d.Rest)))
	}
	return d.Err
}

// note decides a noted take again.
func (r *replayer) note(d *decoder, tag uint32, h, word uint64, cost int64) {
	p := r.plan(d, tag)
	if r.now = rule.Micros(word & (noteAdmitted - 1)); p != nil {
		r.take(p, h, cost, word&noteAdmitted != 0)
	}
}

// keys carries out what a checkpoint says of the keys of a limit.
func (r *replayer) keys(kind uint8, p *plan, d *decoder) {
	if kind == kindForgotten {
		p.table.forgottenKeys().replay(d, r.now, r.store.opened)
		return
	}
	for d.More() {
		h := d.key()
		if kind == kindFreed {
			r.free(p.table, h)
		} else if s := d.state(p.limit); !d.Failed() {
			p.table.replay(h, &s)
		}
	}
}

// oldest is how much older than the opening records are at most that fit into the smallest form.
const oldest = rule.Micros(365 * 86_400 * 1_000_000)

// limit makes the table of a limit that records refer to by its tag.
func (r *replayer) limit(d *decoder) {
	tag, namespace, name, limit, keys := d.Int(), d.text(), d.text(), d.limit(), d.Int()
	d.Check(tag > 0 && tag <= maxTag && keys >= 0)
	if d.Failed() || r.plans[uint32(tag)] != nil {
		return
	}
	s, bound := r.store, store.Bind(namespace, name, "", limit)
	t := s.tables[bound.Prefix()]
	if t == nil {
		at := r.now
		r.now = max(0, s.opened-oldest) // the table must have room for the times of all records
		t = s.addTable(bound)
		r.now = at
		t.presplit(keys)
	}
	t.addTag(limit, uint32(tag))
	s.keeper.lastTag = max(s.keeper.lastTag, uint32(tag))
	r.plans[uint32(tag)] = &plan{bound: bound, limit: bound.Rule(), table: t}
}

// plan returns the plan of a tag, nil after an error.
func (r *replayer) plan(d *decoder, tag uint32) *plan {
	if r.plans[tag] == nil && !r.ahead { // a note came between the beginning of a checkpoint and what that says of its limits
		r.ahead = true
		_, err := journal.Inspect(r.dir, func(record journal.Record) error {
			limit := newDecoder(record.Body)
			if !record.IsNote && record.Kind == kindLimit {
				r.limit(limit)
			}
			return limit.Err
		})
		if err != nil {
			d.Fail(err)
			return nil
		}
	}
	if r.plans[tag] == nil {
		d.Fail(fmt.Errorf("it refers to limit %d, which is not described", tag))
	}
	return r.plans[tag]
}

// planOf reads a tag, and returns its plan, nil after an error.
func (r *replayer) planOf(d *decoder) *plan {
	tag := d.Int()
	if d.Check(tag > 0 && tag <= maxTag); d.Failed() {
		return nil
	}
	return r.plan(d, uint32(tag))
}

// take decides a take again. One that was admitted counts in any case.
func (r *replayer) take(p *plan, h uint64, cost int64, admitted bool) {
	s := r.store
	var allowed bool
	if p.table.lines != nil {
		allowed, _, _, _, _, _, _ = s.takeLine(p.table.page(h), p, h, cost)
	} else {
		allowed, _, _, _, _, _, _ = s.takeOneLocked(p, h, cost)
	}
	if admitted && !allowed {
		j := s.newJob(rule.Charge, 1)
		defer j.end()
		c := &j.claims[0]
		c.plan, c.h, c.cost = p, h, cost
		if j.decide(j.answer[:]) != nil { // there is no space for it
			one := rule.State{Start: rule.Absent, Counts: make([]int64, p.limit.Parts())}
			p.limit.TakeOne(&one, r.now, cost)
			p.table.forget(h, &one, r.now)
		}
	}
}

// job carries out what one request changed.
func (r *replayer) job(d *decoder) {
	for r.now = d.time(); d.More(); {
		what := d.Int()
		if what == partSettlement {
			r.settlement(d)
			continue
		}
		p, h := r.planOf(d), d.key()
		if d.Failed() {
			return
		}
		switch what {
		case partTake:
			cost := d.Int()
			if d.Check(cost >= 0 && cost <= rule.MaxQuota); !d.Failed() {
				r.take(p, h, cost, true)
			}
		case partState, partReset, partForget:
			s := d.state(p.limit)
			if d.Failed() {
				return
			}
			if what == partForget {
				p.table.forget(h, &s, r.now)
				p.table.vacateKey(h)
				break
			}
			if what == partReset {
				r.free(p.table, h)
			}
			p.table.replay(h, &s)
		default:
			d.Fail(fmt.Errorf("unknown part %d", what))
		}
	}
}

// settlement remembers a settlement.
func (r *replayer) settlement(d *decoder) {
	key, life, record := d.settlement()
	if d.Failed() || life.expires <= r.store.opened {
		return
	}
	m := r.store.settlements
	m.remember(&settling{shard: m.shardOf(key), key: key, life: life}, r.now, record)
}

// free frees a key that was reset. What had been forgotten of it may be replayed later.
func (r *replayer) free(t *table, h uint64) {
	f := t.forgottenKeys()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.exact {
		f.removeExact(h)
	}
	f.freed.add(h, r.now, rule.MaxNow)
}

// replay gives a key the state that it had.
func (t *table) replay(h uint64, s *rule.State) {
	op, now := rule.Charge, t.store.clock.read()
	used := *s
	if used.Holds = nil; t.limit.Expires(&used) <= now {
		op = rule.GiveBack // needs no slot if there is none
		if len(s.Counts) == 0 {
			s.Counts = make([]int64, t.limit.Parts())
		}
	}
	j := t.store.newJob(op, 1)
	defer j.end()
	c := &j.claims[0]
	c.plan, c.h = &plan{table: t, limit: &t.limit}, h
	for {
		j.lock()
		what, _, now := j.open()
		switch {
		case what != ready:
		case c.slot >= 0 && !c.form.fits(s, now, 0):
			what = needSecondForm
		case len(s.Holds) > 0 && !c.page.held:
			what = needHeld
		default:
			c.state, c.inherited = *s, false
			j.items[0].Changed = true
		}
		j.close(what == ready, j.answer[:])
		j.unlock()
		switch what {
		case ready:
			c.state, c.counts, c.holds = rule.State{}, nil, nil // they are the caller's
			t.trim()
			return
		case full:
			t.forget(h, s, t.store.clock.read())
			return
		}
		j.overcome(what, c)
	}
}

// vacateKey takes the slot of a key that was forgotten, if it has one.
func (t *table) vacateKey(h uint64) {
	g := t.page(h)
	g.mu.Lock()
	defer g.mu.Unlock()
	f := t.form(g)
	if i := find(f, g, h); i >= 0 {
		t.vacate(g, i, f.claim(g, i), h)
	}
}

// presplit splits an empty table as often as so many keys need.
func (t *table) presplit(keys int64) {
	g := t.page(0)
	perPage := int64(t.form(g).slots()) * 7 / 8
	depth := min(bits.Len64(uint64(keys/perPage)), maxDepth)
	if depth == 0 || g.depth > 0 || !t.reserve((pageBytes+dirBytes)<<depth) {
		return
	}
	d := &directory{depth: uint(depth), pages: make([]atomic.Pointer[page], 1<<depth)}
	for i := range d.pages {
		d.pages[i].Store(newPage(uint8(depth), false))
	}
	t.account(-pageBytes - dirBytes)
	t.dir.Store(d)
}
