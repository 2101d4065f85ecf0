package server

import (
	"context"
	"errors"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/seal"
	"github.com/slidegate/slidegate/store"
)

// keeper returns the keeper of the key that signs reservations: a document of the store.
func (s *Server) keeper() seal.Keeper {
	if len(s.opts.ReservationKey) > 0 {
		return seal.Fixed(s.opts.ReservationKey)
	}
	documents, ok := store.As[store.Documents](s.documents())
	if !ok {
		return nil
	}
	return func(ctx context.Context, proposed []byte) ([]byte, error) {
		const name = "reservation-key"
		kept, revision, err := documents.LoadDocument(ctx, name, 0)
		if err != nil || revision != 0 {
			return kept, err
		}
		if _, err = documents.SwapDocument(ctx, name, proposed, 0); !errors.Is(err, store.ErrOutdated) {
			return proposed, err
		}
		kept, _, err = documents.LoadDocument(ctx, name, 0) // another instance was faster
		return kept, err
	}
}
