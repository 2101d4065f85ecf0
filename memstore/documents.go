package memstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/slidegate/slidegate/store"
)

// document is what LoadDocument returns. Its bytes do not change.
type document struct {
	text     []byte
	revision uint64
}

// LoadDocument returns a document and its revision; see store.Documents. Documents are not counted in Options.MaxBytes.
func (s *Store) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.documents[name]
	if d.revision == known {
		return nil, known, nil
	}
	return bytes.Clone(d.text), d.revision, nil
}

// SwapDocument replaces a document; see store.Documents.
func (s *Store) SwapDocument(ctx context.Context, name string, text []byte, revision uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(text) > store.MaxDocument {
		return 0, fmt.Errorf("memstore: %w: the document has %d bytes; the maximum is %d", store.ErrUnsupported, len(text), store.MaxDocument)
	}
	revision, err := s.swapDocument(name, text, revision)
	if err == nil {
		s.kept()
	}
	return revision, err
}

func (s *Store) swapDocument(name string, text []byte, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.documents[name].revision != revision {
		return 0, fmt.Errorf("memstore: %w", store.ErrOutdated)
	}
	d := document{bytes.Clone(text), store.NewRevision()}
	s.recordDocument(name, d)
	s.documents[name] = d
	return d.revision, nil
}
