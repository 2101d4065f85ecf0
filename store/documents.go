package store

import (
	"context"
	"errors"
	"math/rand/v2"
)

// Documents is an optional interface for Stores that can also keep a few hundred documents where all processes that share the store find them:
// what operators have decided about keys, a key that signs, and what instances have seen. A document has a name of lower-case letters and
// "-", is at most MaxDocument bytes long, and is kept until it is replaced. As finds the interface under any number of layers, which take
// no part in it.
type Documents interface {
	// LoadDocument returns a document and its revision, which is 0 if there is none. Known is the revision that the caller has, or 0: if
	// it is still current, the document itself is nil.
	LoadDocument(ctx context.Context, name string, known uint64) (document []byte, revision uint64, err error)

	// SwapDocument replaces a document that still has the given revision; 0 means that there must be none. It returns the new
	// revision. If the document has another revision, SwapDocument writes nothing and returns an
	// error that wraps ErrOutdated. Any other error means that the outcome is unknown. A document never has the same revision twice,
	// not even after the store has lost it.
	SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error)
}

// MaxDocument is the largest size of a document, in bytes: less than the megabyte that key-value engines accept.
const MaxDocument = 768 << 10

// ErrOutdated is wrapped by the error of a swap that wrote nothing because another process was faster.
var ErrOutdated = errors.New("another process has changed the entry")

// NewRevision returns a revision for a store whose server has none of its own. It is random, so that it differs from those before a
// loss of data, and never 0.
func NewRevision() uint64 { return rand.Uint64()>>1 | 1 }
