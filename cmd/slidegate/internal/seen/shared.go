package seen

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/slidegate/slidegate/store"
)

// Bounds of what is shared.
const (
	maxInstances = 256
	swapAttempts = 8 // at a change of the index that conflicts with those of other instances
	readsAtOnce  = 16
)

// The names of documents. Each instance has one of its own, of which "aa" to "pp" is the number in the index.
const (
	indexName = "seen"
	noteName  = "seen-"
)

// nothing is what a document has of an instance that nobody looks at, or that is gone: documents cannot be removed.
var nothing = []byte{0}

// index is the document by which instances find one another. It has no times, since their clocks may differ.
type index struct {
	// Looks increases again and again while someone looks at any instance.
	Looks uint64 `json:"looks"`
	// IDs are those of the instances that have noticed it, by the numbers of their documents.
	IDs []string `json:"ids"`
}

// shared is what the store has of all instances. It is not safe for concurrent use.
type shared struct {
	documents store.Documents
	id        string

	index    index
	revision uint64 // of index; 0 if it is not known
	own      uint64 // revision of this instance's document; 0 if it is not known
	number   int    // of this instance's document, if index.IDs says so
	loaded   bool   // index was read before
	looks    uint64 // of the index when it was read last
	others   bool   // someone has looked at another instance; turn sets it back
}

// load reads the index if it has changed.
func (s *shared) load(ctx context.Context) error {
	text, revision, err := s.documents.LoadDocument(ctx, indexName, s.revision)
	if err != nil {
		return err
	}
	if revision != s.revision || revision == 0 {
		s.index, s.revision = index{}, revision
		if json.Unmarshal(text, &s.index) != nil || len(s.index.IDs) > maxInstances {
			s.index = index{} // it is written anew
		}
	}
	s.others = s.others || s.loaded && s.index.Looks != s.looks
	s.loaded, s.looks = true, s.index.Looks
	return nil
}

// swap changes the index, if change says that there is something to change.
func (s *shared) swap(ctx context.Context, change func(*index) bool) (err error) {
	for range swapAttempts {
		if err = s.load(ctx); err != nil {
			return err
		}
		next := index{s.index.Looks, slices.Clone(s.index.IDs)}
		if !change(&next) {
			return nil
		}
		text, _ := json.Marshal(next) // of numbers and texts
		s.revision, err = s.documents.SwapDocument(ctx, indexName, text, s.revision)
		if err == nil {
			s.index, s.looks = next, next.Looks
		}
		if !errors.Is(err, store.ErrOutdated) {
			return err
		}
	}
	return err
}

// mark says that someone looks at this instance. When they begin, the index forgets all instances: those that are there join again.
func (s *shared) mark(ctx context.Context, begin bool) error {
	return s.swap(ctx, func(i *index) bool {
		if i.Looks++; begin {
			i.IDs = nil
		}
		return true
	})
}

// listed reports whether the index has this instance.
func (s *shared) listed() bool {
	return s.number >= 0 && s.number < len(s.index.IDs) && s.index.IDs[s.number] == s.id
}

// join adds this instance to the index, if there is room.
func (s *shared) join(ctx context.Context) error {
	s.own = 0
	return s.swap(ctx, func(i *index) bool {
		if s.number = slices.Index(i.IDs, s.id); s.number >= 0 || len(i.IDs) == maxInstances {
			return false // the outcome of the swap before was not known, or there is no room
		}
		s.number, i.IDs = len(i.IDs), append(i.IDs, s.id)
		return true
	})
}

// write replaces the document of this instance.
func (s *shared) write(ctx context.Context, text []byte) (err error) {
	if !s.listed() {
		if err := s.join(ctx); err != nil || !s.listed() {
			return err
		}
	}
	for range 2 {
		if s.own == 0 {
			if _, s.own, err = s.documents.LoadDocument(ctx, nameOf(s.number), 0); err != nil {
				return err
			}
		}
		s.own, err = s.documents.SwapDocument(ctx, nameOf(s.number), text, s.own)
		if !errors.Is(err, store.ErrOutdated) { // of what another instance left there
			return err
		}
	}
	return err
}

// change is a document that another instance has written.
type change struct {
	id       string
	number   int
	text     []byte
	revision uint64
}

// read returns the documents of the other instances that have not the revision that is known.
func (s *shared) read(ctx context.Context, known map[string]uint64) (changes []change, err error) {
	var mu sync.Mutex
	var reading sync.WaitGroup
	places := make(chan struct{}, readsAtOnce)
	for number, id := range s.index.IDs {
		if id == s.id {
			continue
		}
		reading.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			text, revision, failed := s.documents.LoadDocument(ctx, nameOf(number), known[id])
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed != nil:
				err = failed
			case revision != known[id]:
				changes = append(changes, change{id, number, text, revision})
			}
		})
	}
	reading.Wait()
	return changes, err
}

func nameOf(number int) string {
	return noteName + string([]byte{'a' + byte(number/16), 'a' + byte(number%16)})
}
