package stores

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
	"github.com/slidegate/slidegate/kvstore"
)

// kvRulings keeps rulings in a key-value engine, which can change only one entry at a time, with entries of up to a megabyte. So
// the rulings are split into sheets by a hash of their names, and the log is split into sheets too. Sheets are immutable: a change
// writes a new sheet under a new name, and then replaces the old name in the head, which is a single entry. Only the sheets that
// the head names are valid.
type kvRulings struct {
	engine kvstore.Engine
	store  string // the store's name, for errors
	prefix string // of the names of entries

	mu    sync.Mutex
	cache map[string]*sheet // sheets that were read or written, by ID; at most those of one head
}

// head is the entry that names the valid sheets.
type head struct {
	Version int64            `json:"version"`
	Rulings int              `json:"rulings"` // the number of rulings
	Sheets  map[uint8]string `json:"sheets"`  // sheet IDs by the hash of the names of their rulings
	Log     []string         `json:"log"`     // sheet IDs of the log, oldest first
	Last    []rulings.Ruling `json:"last"`    // changes that are not in a sheet of the log yet, oldest first

	revision uint64
}

// sheet is an entry of rulings or of changes.
type sheet struct {
	all      []rulings.Ruling
	revision uint64
}

const (
	logSheet       = 20        // changes per sheet of the log
	changeAttempts = 64        // attempts at a change that conflicts with others
	readAttempts   = 3         // attempts to read everything if sheets are replaced in between
	replacedTTL    = time.Hour // how long a replaced sheet is kept, for instances that are still reading it

	// forever is how long an entry that does not expire is kept. It is within what engines can represent.
	forever = 100 * 365 * 24 * time.Hour
)

// errReplaced is the error if a sheet is gone because another one has replaced it.
var errReplaced = errors.New("a sheet of rulings was replaced while it was read")

func newKVRulings(store, prefix string, engine kvstore.Engine) *kvRulings {
	return &kvRulings{engine: engine, store: store, prefix: prefix + "-rulings-", cache: map[string]*sheet{}}
}

func (k *kvRulings) Load(ctx context.Context, known int64) (all []rulings.Ruling, version int64, err error) {
	for range readAttempts {
		var h *head
		if h, err = k.readHead(ctx); err != nil {
			break
		}
		if h.Version == known {
			return nil, known, nil
		}
		if all, err = k.loadAll(ctx, h); err == nil {
			return all, h.Version, nil
		}
		if !errors.Is(err, errReplaced) {
			break
		}
	}
	return nil, 0, failed(k.store, err)
}

// loadAll returns the rulings of all sheets.
func (k *kvRulings) loadAll(ctx context.Context, h *head) (all []rulings.Ruling, err error) {
	k.dropUnnamed(h)
	for _, id := range h.Sheets {
		s, err := k.readSheet(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, s.all...)
	}
	return all, nil
}

func (k *kvRulings) Apply(ctx context.Context, change rulings.Ruling, stale []rulings.Ruling) (err error) {
	for range changeAttempts {
		err = k.tryApply(ctx, &change, stale)
		if !errors.Is(err, kvstore.ErrConflict) && !errors.Is(err, errReplaced) {
			break
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rulings.ErrNone), errors.Is(err, rulings.ErrFull):
		return fmt.Errorf("stores: %w", err)
	}
	return failed(k.store, err)
}

// tryApply attempts a change. It returns kvstore.ErrConflict if another instance makes a change at the same time.
func (k *kvRulings) tryApply(ctx context.Context, change *rulings.Ruling, stale []rulings.Ruling) error {
	h, err := k.readHead(ctx)
	if err != nil {
		return err
	}
	k.dropUnnamed(h)
	draft := &draft{keeper: k, head: h, sheets: map[uint8]*sheet{}}
	if err := draft.change(ctx, change, stale); err != nil {
		return err
	}
	replaced, written, err := draft.write(ctx)
	if err == nil {
		err = k.writeHead(ctx, h)
	}
	if err != nil {
		if errors.Is(err, kvstore.ErrConflict) { // otherwise the head may name what was written
			k.expire(ctx, written)
		}
		return err
	}
	k.expire(ctx, replaced)
	return nil
}

func (k *kvRulings) Log(ctx context.Context, n int) (all []rulings.Ruling, err error) {
	n = min(n, rulings.MaxLog)
	for range readAttempts {
		var h *head
		if h, err = k.readHead(ctx); err != nil {
			break
		}
		if all, err = k.lastChanges(ctx, h, n); err == nil {
			return all, nil
		}
		if !errors.Is(err, errReplaced) {
			break
		}
	}
	return nil, failed(k.store, err)
}

// lastChanges returns the last n changes, newest first.
func (k *kvRulings) lastChanges(ctx context.Context, h *head, n int) (all []rulings.Ruling, err error) {
	lines := h.Last
	for i := len(h.Log) - 1; i >= 0 && len(lines) < n; i-- {
		s, err := k.readSheet(ctx, h.Log[i])
		if err != nil {
			return nil, err
		}
		lines = slices.Concat(s.all, lines)
	}
	all = slices.Clone(lines[max(0, len(lines)-n):])
	slices.Reverse(all)
	return all, nil
}

// draft is a change of sheets that is not written yet.
type draft struct {
	keeper *kvRulings
	head   *head
	sheets map[uint8]*sheet // the sheets that change
}

// change applies a change to the draft.
func (d *draft) change(ctx context.Context, change *rulings.Ruling, stale []rulings.Ruling) error {
	own, err := d.sheetOf(ctx, change)
	if err != nil {
		return err
	}
	index := own.find(change)
	if change.Kind == rulings.Clear && index < 0 {
		return rulings.ErrNone
	}
	for i := range stale {
		if err := d.remove(ctx, &stale[i], change); err != nil {
			return err
		}
	}
	index = own.find(change) // its index may have changed
	switch {
	case change.Kind == rulings.Clear:
		own.all = slices.Delete(own.all, index, index+1)
		d.head.Rulings--
	case index >= 0:
		own.all[index] = *change
	case d.head.Rulings >= rulings.MaxRulings:
		return rulings.ErrFull
	default:
		own.all = append(own.all, *change)
		d.head.Rulings++
	}
	d.head.Version++
	d.head.Last = append(d.head.Last, *change)
	return nil
}

// remove removes a stale ruling, if it is unchanged and is not the one being changed.
func (d *draft) remove(ctx context.Context, stale, change *rulings.Ruling) error {
	if isSameKey(stale, change) {
		return nil
	}
	s, err := d.sheetOf(ctx, stale)
	if err != nil {
		return err
	}
	if i := s.find(stale); i >= 0 && string(s.all[i].Text()) == string(stale.Text()) {
		s.all = slices.Delete(s.all, i, i+1)
		d.head.Rulings--
	}
	return nil
}

// sheetIndex returns the index of the sheet that a ruling belongs to.
func sheetIndex(r *rulings.Ruling) uint8 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(r.Policy + "\x00" + r.Key)) // never fails
	return uint8(hash.Sum32())
}

// sheetOf returns a copy of the sheet that a ruling belongs to.
func (d *draft) sheetOf(ctx context.Context, r *rulings.Ruling) (*sheet, error) {
	index := sheetIndex(r)
	if s := d.sheets[index]; s != nil {
		return s, nil
	}
	s := &sheet{}
	if id := d.head.Sheets[index]; id != "" {
		read, err := d.keeper.readSheet(ctx, id)
		if err != nil {
			return nil, err
		}
		s.all = slices.Clone(read.all)
	}
	d.sheets[index] = s
	return s, nil
}

// find returns the index in a sheet of the ruling for the same key, or -1.
func (s *sheet) find(about *rulings.Ruling) int {
	return slices.IndexFunc(s.all, func(r rulings.Ruling) bool { return isSameKey(&r, about) })
}

func isSameKey(a, b *rulings.Ruling) bool { return a.Policy == b.Policy && a.Key == b.Key }

// write writes the sheets of the draft and names them in its head. It returns the IDs of the sheets that it replaces, and of
// those that it has written.
func (d *draft) write(ctx context.Context) (replaced, written []string, err error) {
	h := d.head
	for index, s := range d.sheets {
		if old := h.Sheets[index]; old != "" {
			replaced = append(replaced, old)
		}
		delete(h.Sheets, index)
		if len(s.all) == 0 {
			continue
		}
		id, err := d.keeper.writeSheet(ctx, s)
		if err != nil {
			return nil, written, err
		}
		h.Sheets[index], written = id, append(written, id)
	}
	if len(h.Last) >= logSheet {
		id, err := d.keeper.writeSheet(ctx, &sheet{all: h.Last})
		if err != nil {
			return nil, written, err
		}
		h.Log, h.Last, written = append(h.Log, id), nil, append(written, id)
	}
	for len(h.Log)*logSheet >= rulings.MaxLog+logSheet {
		replaced, h.Log = append(replaced, h.Log[0]), h.Log[1:]
	}
	return replaced, written, nil
}

func (k *kvRulings) readHead(ctx context.Context) (*head, error) {
	h := &head{}
	value, revision, err := k.engine.Get(ctx, k.prefix+"head")
	if err == nil && revision != 0 {
		err = json.Unmarshal(value, h)
	}
	if err != nil {
		return nil, err
	}
	if h.Sheets == nil {
		h.Sheets = map[uint8]string{}
	}
	h.revision = revision
	return h, nil
}

func (k *kvRulings) writeHead(ctx context.Context, h *head) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = k.engine.Swap(ctx, k.prefix+"head", text, h.revision, forever)
	}
	return err
}

// readSheet returns a sheet, which must not be changed.
func (k *kvRulings) readSheet(ctx context.Context, id string) (*sheet, error) {
	if s := k.cachedSheet(id); s != nil {
		return s, nil
	}
	s := &sheet{}
	value, revision, err := k.engine.Get(ctx, k.prefix+id)
	switch {
	case err != nil:
		return nil, err
	case revision == 0:
		return nil, errReplaced
	}
	if err := json.Unmarshal(value, &s.all); err != nil {
		return nil, fmt.Errorf("invalid sheet of rulings: %w", err)
	}
	s.revision = revision
	k.cacheSheet(id, s)
	return s, nil
}

// writeSheet writes a sheet under a new name.
func (k *kvRulings) writeSheet(ctx context.Context, s *sheet) (id string, err error) {
	text, err := json.Marshal(s.all)
	if err != nil {
		return "", err
	}
	id = rand.Text()
	if most := k.engine.Traits().MaxValue; most > 0 && len(text) > most {
		return "", fmt.Errorf("rulings that are stored together take %d bytes, but the store accepts %d; end some of them, or give shorter reasons",
			len(text), most)
	}
	s.revision, err = k.engine.Swap(ctx, k.prefix+id, text, 0, forever)
	if err == nil && s.revision != 0 {
		k.cacheSheet(id, s)
	}
	return id, err
}

// expire sets an expiry on sheets that the head does not name. A failure only wastes their space.
func (k *kvRulings) expire(ctx context.Context, ids []string) {
	for _, id := range ids {
		if value, revision, err := k.engine.Get(ctx, k.prefix+id); err == nil && revision != 0 {
			_, _ = k.engine.Swap(ctx, k.prefix+id, value, revision, replacedTTL)
		}
	}
}

func (k *kvRulings) cachedSheet(id string) *sheet {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cache[id]
}

func (k *kvRulings) cacheSheet(id string, s *sheet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cache[id] = s
}

// dropUnnamed drops the cached sheets that a head does not name.
func (k *kvRulings) dropUnnamed(h *head) {
	named := make(map[string]bool, len(h.Sheets))
	for _, id := range h.Sheets {
		named[id] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.cache {
		if !named[id] {
			delete(k.cache, id)
		}
	}
}

// keepKeyInKV keeps a key in a separate entry.
func keepKeyInKV(store, prefix string, engine kvstore.Engine) func(context.Context, []byte) ([]byte, error) {
	name := prefix + "-reservation-key"
	return func(ctx context.Context, proposed []byte) ([]byte, error) {
		kept, revision, err := engine.Get(ctx, name)
		if err == nil && revision == 0 {
			if _, err = engine.Swap(ctx, name, proposed, 0, forever); err == nil {
				return proposed, nil
			}
			if errors.Is(err, kvstore.ErrConflict) { // another instance was faster
				kept, revision, err = engine.Get(ctx, name)
			}
		}
		if err == nil && revision == 0 {
			err = errors.New("the key that signs reservations was removed while it was read")
		}
		if err != nil {
			return nil, failed(store, err)
		}
		return kept, nil
	}
}
