package kvstore

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/store"
)

// LoadDocument returns a document and its revision; see store.Documents.
func (s *Store) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	document, revision, err := s.engine.Get(ctx, s.documentName(name))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("kvstore: %w", err)
	case revision == 0 || revision == known:
		return nil, revision, nil
	}
	return document, revision, nil
}

// SwapDocument replaces a document; see store.Documents.
func (s *Store) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	if len(document) > s.traits.MaxValue {
		return 0, fmt.Errorf("kvstore: %w: the document has %d bytes, and the engine takes at most %d", store.ErrUnsupported, len(document), s.traits.MaxValue)
	}
	revision, err := s.engine.Swap(ctx, s.documentName(name), document, revision, MaxKeep)
	if err != nil {
		return 0, fmt.Errorf("kvstore: %w", err)
	}
	return revision, nil
}

// documentName returns the name of a document's entry. The name of a key's entry ends in a hash, which contains no "-".
func (s *Store) documentName(name string) string { return s.opts.Prefix + "-document-" + name }
