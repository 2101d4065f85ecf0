package service

import (
	"context"
	"errors"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// Degrees of Options.StateDegree: what a crash may forget.
const (
	degreeProcess = "process"
	degreeSynced  = "synced"
)

// openState opens the folder of Options.State, which keeps a store in memory. A folder that cannot be read is an error:
// starting empty would admit clients that the limits had refused.
func (s *Server) openState(url string) (err error) {
	opts, err := open.MemoryOptions(url)
	if err != nil {
		return err
	}
	path := s.opts.State
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		return invalid("State", "%s is a file; give a folder", path)
	}
	opts.Synced, opts.Logger = s.opts.StateDegree == degreeSynced, s.log
	if s.state, err = memstore.Open(path, opts); err != nil {
		return invalid("State", "%w", err)
	}
	return nil
}

// stateFailure returns why what is decided is not kept, nil if it is or need not be.
func (s *Server) stateFailure() error {
	if s.state == nil {
		return nil
	}
	d, _ := s.state.Durability()
	return d.Err
}

// keeper returns the keeper of the key that signs reservations: a document of the store.
func (s *Server) keeper() gate.Keeper {
	if len(s.opts.ReservationKey) > 0 {
		return gate.KeyFrom(s.opts.ReservationKey)
	}
	documents, _ := store.As[store.Documents](s.stores.Store) // every store of the service has them
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
