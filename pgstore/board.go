package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/internal/board"
	"github.com/slidegate/slidegate/store"
)

// What is on the board are rows of the table of states, so that they are swept with them. No other address begins with a percent sign and a
// small letter n. A note is in the numbers of more: how many bytes it has, then eight of them in each, the first byte highest.

// boardStatements returns the statements of Post and Notes. The first parameters are the time or -1, and an address.
func boardStatements(table string) (post, notes string) {
	const now = "WITH n AS (SELECT CASE WHEN $1::bigint < 0 THEN (date_part('epoch', clock_timestamp()) * 1000000)::bigint ELSE $1::bigint END AS now), "
	// Of two that post at the same time, both may find a place where there is one.
	post = now + "others AS (SELECT count(*) AS number FROM " + table + ` s, n
			WHERE s.address > $5::text || ':' AND s.address < $5::text || ';' AND s.address <> $2::text AND s.expires > n.now),
		posted AS (INSERT INTO ` + table + ` AS t (version, expires, current, previous, address, more)
		SELECT 0, n.now + $3::bigint, 0, -1, $2::text, $4::bigint[] FROM n, others WHERE others.number < $6::bigint
		ON CONFLICT (address) DO UPDATE SET version = t.version + 1, expires = excluded.expires, more = excluded.more
		RETURNING 1) SELECT count(*) FROM posted`
	notes = now + `live AS (SELECT s.address, s.more FROM ` + table + ` s, n
			WHERE s.address > $2::text || ':' AND s.address < $2::text || ';' AND s.expires > n.now AND s.previous = -1
			AND substr(s.address, length($2::text) + 2) ~ '^[a-z0-9-]+$' AND cardinality(s.more) BETWEEN 1 AND $3::bigint ORDER BY s.address LIMIT $4::bigint)
		SELECT coalesce(string_agg(convert_to(substr(l.address, length($2::text) + 2) || ' ' || cardinality(l.more) || ' ', 'UTF8')
			|| (SELECT string_agg(int8send(u.number), ''::bytea ORDER BY u.i) FROM unnest(l.more) WITH ORDINALITY u(number, i)), ''::bytea), ''::bytea)
		FROM live l`
	return post, notes
}

// Post puts a note under a topic; see store.Board.
func (s *Store) Post(ctx context.Context, topic, author string, note []byte, life time.Duration) error {
	if err := board.CheckPost(topic, author, note, life); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	place := "%note:" + topic
	var posted int64
	err := s.boardRow(ctx, s.post, []any{s.now(), place + ":" + author, life.Microseconds(), numberArray(packNote(note)), place, int64(store.MaxNotes)}, &posted)
	if err == nil && posted == 0 {
		err = fmt.Errorf("pgstore: %w", board.Full())
	}
	return err
}

// Notes returns the notes of a topic; see store.Board.
func (s *Store) Notes(ctx context.Context, topic string) (map[string][]byte, error) {
	if err := board.CheckTopic(topic); err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	var found []byte
	if err := s.boardRow(ctx, s.notes, []any{s.now(), "%note:" + topic, int64(1 + (store.MaxNote+7)/8), int64(store.MaxNotes)}, &found); err != nil {
		return nil, err
	}
	notes := map[string][]byte{}
	for rest := string(found); rest != ""; {
		author, count, body := cut2(rest)
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || 8*n > len(body) {
			return nil, errors.New("pgstore: invalid reply about the board")
		}
		if note, ok := unpackNote(body[:8*n]); ok && board.CheckTopic(author) == nil {
			notes[author] = note
		}
		rest = body[8*n:]
	}
	return notes, nil
}

// cut2 returns the first two words of a text, and the rest.
func cut2(text string) (first, second, rest string) {
	first, rest, _ = strings.Cut(text, " ")
	second, rest, _ = strings.Cut(rest, " ")
	return first, second, rest
}

// packNote returns a note as numbers.
func packNote(note []byte) []int64 {
	numbers := []int64{int64(len(note))}
	for ; len(note) > 0; note = note[min(8, len(note)):] {
		var eight [8]byte
		copy(eight[:], note)
		numbers = append(numbers, int64(binary.BigEndian.Uint64(eight[:])))
	}
	return numbers
}

// unpackNote reads the bytes of the numbers that packNote returns.
func unpackNote(packed string) (note []byte, ok bool) {
	length := binary.BigEndian.Uint64([]byte(packed[:8]))
	rest := packed[8:]
	if length > uint64(len(rest)) || length > store.MaxNote {
		return nil, false
	}
	return []byte(rest[:length]), true
}

// boardTries is how often a statement of the board is tried. Where transactions are serializable, those that count the notes of a topic and
// add one are rolled back while others do the same.
const boardTries = 20

// boardRow runs a statement of the board. One that the server reports as rolled back is repeated, after a while that differs by caller.
func (s *Store) boardRow(ctx context.Context, statement string, args []any, into any) (err error) {
	for try := range boardTries {
		if err = s.conn.row(ctx, statement, args, into); err == nil {
			return nil
		}
		if code := codeOf(err); ctx.Err() != nil || code != serializationFailure && code != deadlockDetected {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(rand.N(time.Duration(try+1) * 5 * time.Millisecond)):
		}
	}
	return explain(ctx, err)
}
