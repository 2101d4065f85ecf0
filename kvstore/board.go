package kvstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slidegate/slidegate/internal/board"
	"github.com/slidegate/slidegate/internal/statecode"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// What an entry of the board is. The name of a key's entry ends in a hash, which begins with none of these letters.
const (
	claimEntry  = 'x'
	noteEntry   = 'n'
	topicEntry  = 't' // the authors of a topic, because an engine cannot list its entries
	boardFormat = 1   // the first byte of each; the second field is when it ends
)

// registerFor is how long an author stays in the list of its topic at least, so that one that posts every second rarely changes the list.
const registerFor = time.Minute

// Post puts a note under a topic; see store.Board.
func (s *Store) Post(ctx context.Context, topic, author string, note []byte, life time.Duration) error {
	err := s.keepsNotes()
	if err == nil {
		err = board.CheckPost(topic, author, note, life)
	}
	if err != nil {
		return fmt.Errorf("kvstore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if err := s.register(ctx, topic, author, life); err != nil {
		return fmt.Errorf("kvstore: %w", err)
	}
	_, err = s.change(ctx, s.boardName(noteEntry, topic+":"+author), func(now rule.Micros, _ []byte) ([]byte, time.Duration, error) {
		return append(boardHead(now, life), note...), life, nil
	})
	if err != nil {
		return fmt.Errorf("kvstore: %w", err)
	}
	return nil
}

// register makes sure that an author is in the list of a topic for life.
func (s *Store) register(ctx context.Context, topic, author string, life time.Duration) error {
	_, err := s.change(ctx, s.boardName(topicEntry, topic), func(now rule.Micros, old []byte) ([]byte, time.Duration, error) {
		until := now + rule.Micros(life.Microseconds())
		authors := readAuthors(old, now)
		if authors[author] >= until {
			return nil, 0, nil
		}
		authors[author] = max(until, now+rule.Micros(registerFor.Microseconds()))
		if len(authors) > store.MaxNotes {
			return nil, 0, board.Full()
		}
		last := slices.Max(slices.Collect(maps.Values(authors)))
		value := binary.AppendVarint([]byte{boardFormat}, int64(last))
		for _, name := range slices.Sorted(maps.Keys(authors)) {
			value = appendBytes(binary.AppendVarint(value, int64(authors[name])), name)
		}
		return value, (last - now).Duration(), nil
	})
	return err
}

// readAuthors returns until when the authors are in a list.
func readAuthors(list []byte, now rule.Micros) map[string]rule.Micros {
	authors := map[string]rule.Micros{}
	for src := (&statecode.Reader{Rest: list}); src.More(); {
		until, name := rule.Micros(src.Int()), string(bytesOf(src))
		if src.Failed() || len(authors) == store.MaxNotes {
			break
		}
		if until > now && board.CheckTopic(name) == nil {
			authors[name] = until
		}
	}
	return authors
}

// Notes returns the notes of a topic, in one round trip and another for each author; see store.Board.
func (s *Store) Notes(ctx context.Context, topic string) (map[string][]byte, error) {
	err := s.keepsNotes()
	if err == nil {
		err = board.CheckTopic(topic)
	}
	if err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	list, _, err := s.readBoard(ctx, s.boardName(topicEntry, topic))
	notes := map[string][]byte{}
	for author := range readAuthors(list, s.now()) {
		var note []byte
		if note, _, err = s.readBoard(ctx, s.boardName(noteEntry, topic+":"+author)); err != nil {
			break
		}
		if note != nil && len(note) <= store.MaxNote {
			notes[author] = slices.Clone(note)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("kvstore: %w", err)
	}
	return notes, nil
}

// Claim claims a name; see store.Board.
func (s *Store) Claim(ctx context.Context, name string, life time.Duration) (first bool, err error) {
	if err := board.CheckClaim(life); err != nil {
		return false, fmt.Errorf("kvstore: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	first, err = s.change(ctx, s.boardName(claimEntry, name), func(now rule.Micros, old []byte) ([]byte, time.Duration, error) {
		if old != nil {
			return nil, 0, nil
		}
		return boardHead(now, life), life, nil
	})
	if err != nil {
		return false, fmt.Errorf("kvstore: %w", err)
	}
	return first, nil
}

// change replaces an entry of the board by what next returns, given the time and what the entry has that has not ended. If that is nil,
// change leaves the entry and returns false. It starts over if another process was faster.
func (s *Store) change(ctx context.Context, name string, next func(now rule.Micros, old []byte) ([]byte, time.Duration, error)) (bool, error) {
	for {
		old, revision, err := s.readBoard(ctx, name)
		if err != nil {
			return false, err
		}
		value, keep, err := next(s.now(), old)
		if err != nil || value == nil {
			return false, err
		}
		_, err = s.engine.Swap(ctx, name, value, revision, min(keep+s.opts.Grace, MaxKeep))
		if !errors.Is(err, ErrOutdated) {
			return err == nil, err
		}
	}
}

// readBoard returns what an entry of the board has, not nil, and its revision; nil if it has ended or is of another format.
func (s *Store) readBoard(ctx context.Context, name string) ([]byte, uint64, error) {
	value, revision, err := s.engine.Get(ctx, name)
	if err != nil || len(value) == 0 || value[0] != boardFormat {
		return nil, revision, err
	}
	src := &statecode.Reader{Rest: value[1:]}
	if until := rule.Micros(src.Int()); src.Failed() || until <= s.now() {
		return nil, revision, nil
	}
	return src.Rest[:len(src.Rest):len(src.Rest)], revision, nil
}

func boardHead(now rule.Micros, life time.Duration) []byte {
	return binary.AppendVarint([]byte{boardFormat}, int64(now)+life.Microseconds())
}

// keepsNotes returns an error for an engine that takes no entry as large as a note.
func (s *Store) keepsNotes() error {
	const list = store.MaxNotes * (store.MaxBoardName + 16)
	if s.traits.MaxValue < store.MaxNote+16 || s.traits.MaxValue < list {
		return fmt.Errorf("%w: the engine takes at most %d bytes, and notes need %d", store.ErrUnsupported, s.traits.MaxValue, store.MaxNote+16)
	}
	return nil
}

// boardName returns the name of an entry of the board.
func (s *Store) boardName(of byte, name string) string {
	sum := sha256.Sum256([]byte(name))
	return s.opts.Prefix + "-" + string(of) + hex.EncodeToString(sum[:])[:2*hashBytes-1]
}
