package memstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/board"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

const (
	maxClaims = 1 << 17 // names, of about 40 bytes each
	maxTopics = 16      // with notes that are still valid
)

// notices is the board of a store. It is for this process, and neither counted in Options.MaxBytes nor recorded in a folder.
type notices struct {
	mu     sync.Mutex
	topics map[string]map[string]notice // by topic and author
	claims map[[16]byte]rule.Micros     // until when, by the hash of the name
	sweep  int                          // how many claims there must be before those that have ended are searched for
	ends   rule.Micros                  // when the first claim ends, if the last search found that there are too many
}

type notice struct {
	text  []byte // does not change
	until rule.Micros
}

// Post puts a note under a topic; see store.Board.
func (s *Store) Post(ctx context.Context, topic, author string, note []byte, life time.Duration) error {
	if err := board.CheckPost(topic, author, note, life); err != nil {
		return fmt.Errorf("memstore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return endedError(err)
	}
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.clock.read()
	n.drop(now)
	if _, known := n.topics[topic]; !known {
		if len(n.topics) >= maxTopics {
			return fmt.Errorf("memstore: topic: there are notes under %d topics already, which is the maximum", maxTopics)
		}
		n.topics[topic] = map[string]notice{}
	}
	if _, known := n.topics[topic][author]; !known && len(n.topics[topic]) >= store.MaxNotes {
		return fmt.Errorf("memstore: %w", board.Full())
	}
	n.topics[topic][author] = notice{bytes.Clone(note), now + rule.Micros(life.Microseconds())}
	return nil
}

// drop drops the notes that have ended.
func (n *notices) drop(now rule.Micros) {
	for topic, notes := range n.topics {
		for author, note := range notes {
			if note.until <= now {
				delete(notes, author)
			}
		}
		if len(notes) == 0 {
			delete(n.topics, topic)
		}
	}
}

// Notes returns the notes of a topic; see store.Board.
func (s *Store) Notes(ctx context.Context, topic string) (map[string][]byte, error) {
	if err := board.CheckTopic(topic); err != nil {
		return nil, fmt.Errorf("memstore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, endedError(err)
	}
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.clock.read()
	valid := map[string][]byte{}
	for author, note := range n.topics[topic] {
		if note.until > now {
			valid[author] = bytes.Clone(note.text)
		}
	}
	return valid, nil
}

// Claim claims a name; see store.Board. If more than 131,072 names are claimed, it returns an error that wraps ErrFull.
func (s *Store) Claim(ctx context.Context, name string, life time.Duration) (first bool, err error) {
	if err := board.CheckClaim(life); err != nil {
		return false, fmt.Errorf("memstore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return false, endedError(err)
	}
	sum := sha256.Sum256([]byte(name))
	hash := [16]byte(sum[:])
	n := &s.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	now := s.clock.read()
	until, known := n.claims[hash]
	switch {
	case until > now:
		return false, nil
	case !known && !n.hasRoom(now):
		return false, fmt.Errorf("memstore: claim: %w: %d names are claimed", ErrFull, maxClaims)
	}
	n.claims[hash] = now + rule.Micros(life.Microseconds())
	return true, nil
}

// hasRoom reports whether another name can be claimed. It forgets the claims that have ended when there are twice as many claims as
// were left the last time, so that a claim takes constant time on average.
func (n *notices) hasRoom(now rule.Micros) bool {
	if len(n.claims) < n.sweep || len(n.claims) >= maxClaims && now < n.ends {
		return len(n.claims) < maxClaims
	}
	n.ends = rule.MaxNow
	for hash, until := range n.claims {
		if until <= now {
			delete(n.claims, hash)
			continue
		}
		n.ends = min(n.ends, until)
	}
	n.sweep = min(max(1024, 2*len(n.claims)), maxClaims)
	return len(n.claims) < maxClaims
}
