package pgstore

import (
	"context"
	"fmt"

	"github.com/slidegate/slidegate/store"
)

// LoadDocument returns a document and its revision; see store.Documents.
func (s *Store) LoadDocument(ctx context.Context, name string, known uint64) (document []byte, revision uint64, err error) {
	var current int64
	if err := s.db.QueryRow(ctx, s.loadDocument, name, int64(known)).Scan(&current, &document); err != nil {
		return nil, 0, explain(ctx, err)
	}
	return document, uint64(current), nil
}

// SwapDocument replaces a document; see store.Documents.
func (s *Store) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	next := store.NewRevision()
	var swapped int64
	err := s.db.QueryRow(ctx, s.swapDocument, name, int64(revision), int64(next), document).Scan(&swapped)
	switch {
	case codeOf(err) == serializationFailure, err == nil && swapped == 0:
		return 0, fmt.Errorf("pgstore: %w", store.ErrOutdated)
	case err != nil:
		return 0, explain(ctx, err)
	}
	return next, nil
}

// documentStatements returns the statements of LoadDocument and SwapDocument.
func documentStatements(table string) (load, swap string) {
	load = "SELECT coalesce((SELECT revision FROM " + table + " WHERE name = $1::text), 0), " +
		"(SELECT text FROM " + table + " WHERE name = $1::text AND revision <> $2::bigint)"
	swap = "WITH changed AS (UPDATE " + table + " SET revision = $3::bigint, text = $4::bytea WHERE name = $1::text AND revision = $2::bigint RETURNING 1), " +
		"added AS (INSERT INTO " + table + " (name, revision, text) SELECT $1::text, $3::bigint, $4::bytea WHERE $2::bigint = 0 ON CONFLICT DO NOTHING RETURNING 1) " +
		"SELECT (SELECT count(*) FROM changed) + (SELECT count(*) FROM added)"
	return load, swap
}
