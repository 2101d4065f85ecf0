package journal_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/slidegate/slidegate/internal/journal"
)

// disk is a model of a folder on a disk: it knows what would be left if the power failed now.
type disk struct {
	mu     sync.Mutex
	boot   [16]byte // changes when the power fails
	word   string   // of the lock
	names  map[string]*content
	stored map[string]*content // what the folder was when it was synced
	calls  int
	failAt int // the call of a file's Sync or WriteAt that fails; 0 for none
	failed bool
	after  int // such calls after that one

	cutAt int // the call before which the power fails; 0 for never
	onCut func()
}

// content is of a file. changes are those since it was synced.
type content struct {
	now, stored []byte
	changes     []change
}

// change is a write of at most a sector, or a new size if data is nil.
type change struct {
	off  int
	data []byte
}

const sector = 512

func newDisk() *disk {
	return &disk{boot: [16]byte{1}, names: map[string]*content{}, stored: map[string]*content{}}
}

func (c change) apply(to []byte) []byte {
	if c.data == nil {
		return append(slices.Clone(to[:min(len(to), c.off)]), make([]byte, max(0, c.off-len(to)))...)
	}
	if end := c.off + len(c.data); end > len(to) {
		to = append(to, make([]byte, end-len(to))...)
	}
	copy(to[c.off:], c.data)
	return to
}

// afterKill returns the disk as the next process finds it after this one died.
func (d *disk) afterKill() *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := newDisk()
	after.boot, after.word = d.boot, d.word
	copies := map[*content]*content{}
	copyOf := func(c *content) *content {
		if copies[c] == nil {
			copies[c] = &content{now: slices.Clone(c.now), stored: slices.Clone(c.stored), changes: slices.Clone(c.changes)}
		}
		return copies[c]
	}
	for name, c := range d.names {
		after.names[name] = copyOf(c)
	}
	for name, c := range d.stored {
		after.stored[name] = copyOf(c)
	}
	return after
}

// afterPowerLoss returns the disk with any of the changes that were not synced.
func (d *disk) afterPowerLoss(random *rand.Rand) *disk {
	after := d.afterKill()
	after.boot[0]++
	share := []float64{0, 0.1, 0.5, 0.9, 1}[random.IntN(5)]
	any := func() bool { return random.Float64() < share }
	all := maps.Clone(after.stored)
	maps.Copy(all, after.names)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := after.stored[name]
		if any() {
			c = after.names[name]
		}
		delete(after.names, name)
		if c == nil {
			continue
		}
		after.names[name] = c
		for _, change := range c.changes {
			if any() {
				c.stored = change.apply(c.stored)
			}
		}
		c.now, c.changes = slices.Clone(c.stored), nil
	}
	after.stored = maps.Clone(after.names)
	return after
}

// call counts a call that changes something, and fails if it is its turn.
func (d *disk) call(fails bool) error {
	d.calls++
	if d.calls == d.cutAt {
		d.mu.Unlock()
		d.onCut()
		d.mu.Lock()
	}
	if fails && d.failed {
		d.after++
	}
	if fails && d.failAt != 0 && d.calls >= d.failAt {
		d.failAt, d.failed = 0, true
		return errPlanned
	}
	return nil
}

var errPlanned = errors.New("planned failure")

func (d *disk) BootID() [16]byte { return d.boot }

// Lock locks nothing: every disk has one user. The word is on the disk at once, before what it is about might be.
func (d *disk) Lock() (journal.Lock, error) { return diskLock{d}, nil }

type diskLock struct{ *disk }

func (l diskLock) Word() string              { return l.word }
func (l diskLock) SetWord(word string) error { l.word = word; return nil }
func (l diskLock) Check() error              { return nil }
func (l diskLock) Close() error              { return nil }

func (d *disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.names)), nil
}

func (d *disk) Create(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.call(false)
	c := &content{}
	d.names[name] = c
	return &handle{d, c}, nil
}

func (d *disk) Open(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.names[name]; c != nil {
		return &handle{d, c}, nil
	}
	return nil, os.ErrNotExist
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.call(false)
	delete(d.names, name)
	return nil
}

func (d *disk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.call(false)
	d.stored = maps.Clone(d.names)
	return nil
}

// handle is an open file.
type handle struct {
	d *disk
	c *content
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return bytes.NewReader(h.c.now).ReadAt(p, off)
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.call(true); err != nil {
		return 0, err
	}
	for at := 0; at < len(p); {
		n := min(sector-(int(off)+at)%sector, len(p)-at)
		h.change(change{int(off) + at, slices.Clone(p[at : at+n])})
		at += n
	}
	return len(p), nil
}

func (h *handle) change(c change) {
	h.c.now = c.apply(h.c.now)
	h.c.changes = append(h.c.changes, c)
}

func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.c.now)), nil
}

func (h *handle) Truncate(size int64) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	_ = h.d.call(false)
	h.change(change{off: int(size)})
	return nil
}

func (h *handle) Allocate(size int64) error { return h.Truncate(size) }

func (h *handle) Sync() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if err := h.d.call(true); err != nil {
		return err
	}
	h.c.stored, h.c.changes = slices.Clone(h.c.now), nil
	return nil
}

func (h *handle) Map(int64) ([]byte, error) { return nil, errors.ErrUnsupported }
func (h *handle) Close() error              { return nil }
