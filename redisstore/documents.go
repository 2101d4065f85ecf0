package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/store"
)

// documentScript loads or replaces a document, which is a hash of its revision and its text. With one argument, the revision that the
// caller has, it returns the current revision, a space and the text, without the text if the revision is the same. With three, the
// revision to replace, the new one and the text, it returns the new revision, or nothing if there is another.
var documentScript = newScript(`local revision = redis.call('HGET', KEYS[1], 'revision') or '0'
if #ARGV == 1 then
  if revision == '0' or revision == ARGV[1] then return revision .. ' ' end
  return revision .. ' ' .. redis.call('HGET', KEYS[1], 'text')
end
if revision ~= ARGV[1] then return '' end
redis.call('HSET', KEYS[1], 'revision', ARGV[2], 'text', ARGV[3])
return ARGV[2]`)

// LoadDocument returns a document and its revision; see store.Documents.
func (s *Store) LoadDocument(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	reply, err := s.runDocument(ctx, name, strconv.FormatUint(known, 10))
	if err != nil {
		return nil, 0, err
	}
	number, text, ok := strings.Cut(reply, " ")
	revision, err := strconv.ParseUint(number, 10, 64)
	switch {
	case err != nil || !ok:
		return nil, 0, errors.New("redisstore: invalid reply to the script of documents")
	case revision == known || revision == 0:
		return nil, revision, nil
	}
	return []byte(text), revision, nil
}

// SwapDocument replaces a document; see store.Documents.
func (s *Store) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	next := store.NewRevision()
	reply, err := s.runDocument(ctx, name, strconv.FormatUint(revision, 10), strconv.FormatUint(next, 10), string(document))
	switch {
	case err != nil:
		return 0, err
	case reply == "":
		return 0, fmt.Errorf("redisstore: %w", store.ErrOutdated)
	}
	return next, nil
}

// runDocument runs documentScript. No limit has the name of a document: names of limits have the shape of the limit before the brace.
func (s *Store) runDocument(ctx context.Context, name string, args ...string) (string, error) {
	calls, err := s.runOnce(ctx, &documentScript, []Call{{Keys: []string{s.opts.Prefix + ":{" + name + "}"}, Args: args}})
	if err != nil {
		return "", err
	}
	return calls[0].Reply, nil
}
