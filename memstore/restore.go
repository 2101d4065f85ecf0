package memstore

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/slidegate/slidegate/rule"
)

// Restore returns a store that continues from a snapshot. Time that has passed since counts as passed. Keys that do not fit
// into a smaller MaxBytes are forgotten like live keys in a full store, and remembered by key, even with RefuseWhenFull. A
// snapshot may contain more limits than MaxLimits; limits that are not requested do not count. Bytes after the end of the
// snapshot are an error.
func Restore(r io.Reader, opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	d := &decoder{r: bufio.NewReader(r), sum: crc32.New(checksums)}
	if err := d.begin(); err != nil {
		return nil, err
	}
	copy(s.key[:], d.bytes(len(s.key)))
	d.Int() // the time of the snapshot; the states have their own times
	all, err := d.records(s)
	if err != nil {
		return nil, err
	}
	if len(all.limits) > maxLimits {
		return nil, fmt.Errorf("%w: it has more than %d limits", ErrSnapshot, maxLimits)
	}
	// Nothing is used before the whole snapshot has been verified.
	s.documents = all.documents
	for _, limit := range all.limits {
		limit.restore(s)
	}
	s.settlements.restore(all.settlements)
	return s, nil
}

// restore creates the table of a limit.
func (l *savedLimit) restore(s *Store) {
	if len(l.keys) == 0 && l.forgotten == nil {
		return
	}
	t := s.tables[l.id.prefix]
	if t == nil {
		t = s.addTable(l.id, l.limit)
	}
	t.forgotten.CompareAndSwap(nil, l.forgotten)
	for i := range l.keys {
		t.restore(&l.keys[i])
	}
}

// restore puts a key where decisions will find it.
func (t *table) restore(k *savedKey) {
	holds := k.state.Holds
	if k.state.Holds = nil; t.limit.Expires(&k.state) > t.store.clock.read() {
		t.restoreState(k)
	}
	for h := k.hash; len(holds) > 0; {
		g := t.page(h)
		if !g.held {
			t.toHeld(g, h)
			continue
		}
		t.saveHolds(t.held.of(g), h, holds) // the store is not shared yet
		t.trim()
		return
	}
}

func (t *table) restoreState(k *savedKey) {
	j := t.store.newJob(rule.Charge, 1)
	defer j.end()
	c := &j.claims[0]
	c.plan, c.h = &plan{table: t, limit: &t.limit}, k.hash
	for {
		j.lock()
		what, _, now := j.open()
		if what == ready && !c.form.fits(&k.state, now, 0) {
			what = needSecondForm
		}
		if what == ready {
			c.state, c.inherited = k.state, false
			j.items[0].Changed = true
		}
		j.close(what == ready, j.answer[:])
		j.unlock()
		switch what {
		case ready:
			t.trim()
			return
		case full:
			t.forget(k.hash, &k.state, now)
			return
		case needSplit:
			c.crowded = !t.reservePage() || !t.split(c.page, c.h)
		case needSecondForm:
			t.toSecondForm(c.page, c.h)
		}
	}
}
