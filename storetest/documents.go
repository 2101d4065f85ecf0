package storetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/store"
)

// RunDocuments tests a store that implements store.Documents and has none yet. The other one is open on the same data, as in another
// process; for a store in memory they are the same.
func RunDocuments(t *testing.T, one, other store.Documents) {
	s := &documents{T: t, one: one, other: other}
	s.load("a", 0, nil, 0)
	first := s.swap("a", []byte("first"), 0)
	s.load("a", 0, []byte("first"), first)
	s.load("a", first, nil, first)
	s.load("b", 0, nil, 0)
	for _, revision := range []uint64{0, first + 1} {
		if _, err := other.SwapDocument(t.Context(), "a", []byte("late"), revision); !errors.Is(err, store.ErrOutdated) {
			t.Errorf("SwapDocument of revision %d: got %v, want ErrOutdated", revision, err)
		}
	}
	large := make([]byte, store.MaxDocument)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	second := s.swap("a", large, first)
	s.load("a", first, large, second)
	s.swap("b", []byte{0}, 0)
	s.load("a", first, large, second)
	s.concurrent()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := one.LoadDocument(ended, "a", 0); err == nil {
		t.Error("LoadDocument after its context has ended: got no error")
	}
}

type documents struct {
	*testing.T
	one, other store.Documents
}

// load checks what the other store returns.
func (s *documents) load(name string, known uint64, want []byte, revision uint64) {
	s.Helper()
	got, current, err := s.other.LoadDocument(s.Context(), name, known)
	if err != nil || !bytes.Equal(got, want) || current != revision {
		s.Errorf("LoadDocument(%q, %d): got %d bytes, revision %d, %v; want %d bytes, revision %d", name, known, len(got), current, err, len(want), revision)
	}
}

// swap replaces a document and returns its revision.
func (s *documents) swap(name string, document []byte, revision uint64) uint64 {
	s.Helper()
	next, err := s.one.SwapDocument(s.Context(), name, document, revision)
	if err == nil && next == 0 {
		_, next, err = s.one.LoadDocument(s.Context(), name, 0)
	}
	if err != nil || next == revision {
		s.Fatalf("SwapDocument(%q, %d): got revision %d, %v", name, revision, next, err)
	}
	return next
}

// concurrent checks that no update is lost: each adds one byte.
func (s *documents) concurrent() {
	const each = 20
	var all sync.WaitGroup
	for _, documents := range []store.Documents{s.one, s.other, s.one} {
		all.Go(func() {
			for added := 0; added < each && !s.Failed(); {
				text, revision, err := documents.LoadDocument(s.Context(), "c", 0)
				if err == nil {
					_, err = documents.SwapDocument(s.Context(), "c", append(text, 'x'), revision)
				}
				switch {
				case err == nil:
					added++
				case !errors.Is(err, store.ErrOutdated):
					s.Error(err)
				}
			}
		})
	}
	all.Wait()
	if text, _, err := s.one.LoadDocument(s.Context(), "c", 0); err != nil || len(text) != 3*each {
		s.Errorf("after %d concurrent swaps: got %d bytes, %v; want one byte per swap", 3*each, len(text), err)
	}
}
