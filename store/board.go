package store

import (
	"context"
	"time"
)

// Board is an optional interface for Stores through which the processes that share the store tell one another something for a short
// time. Topics and authors consist of 1 to MaxBoardName lower-case letters, digits and "-". The store's clock decides how long something is valid, and everything expires by itself. Whoever may write to the store may post: what Notes returns
// must be checked like any other input. As finds the interface under any number of layers, which take no part in it. An error that wraps
// ErrUnsupported means that the store cannot do it.
type Board interface {
	// Post puts a note under a topic for life, in place of the one that the same author put there.
	Post(ctx context.Context, topic, author string, note []byte, life time.Duration) error
	// Notes returns the notes of a topic that are still valid, by author.
	Notes(ctx context.Context, topic string) (map[string][]byte, error)
}

// Bounds of a Board.
const (
	MaxNote      = 32 << 10 // the largest size of a note, in bytes
	MaxNotes     = 256      // the most authors of a topic; posting is an error for further ones
	MaxBoardName = 64       // the longest topic and author, in bytes
)
