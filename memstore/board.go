package memstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slidegate/slidegate/internal/board"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// maxTopics bounds the topics with notes that are still valid.
const maxTopics = 16

// notices is the board of a store. It is for this process, and neither counted in Options.MaxBytes nor recorded in a folder.
type notices struct {
	mu     sync.Mutex
	topics map[string]map[string]notice // by topic and author
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
