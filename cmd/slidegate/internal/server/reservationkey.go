package server

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/seal"
)

// keeper returns the keeper of the key that signs reservations; nil if the key ends with this process, as the counts
// do.
func (s *Server) keeper() seal.Keeper {
	switch {
	case len(s.opts.ReservationKey) > 0:
		return seal.Fixed(s.opts.ReservationKey)
	case s.stores.KeepKey != nil:
		return s.stores.KeepKey
	case s.opts.State != "":
		return keepInFile(s.opts.State + ".key")
	}
	return nil
}

// keepInFile keeps a key in a file that only its owner can read.
func keepInFile(path string) seal.Keeper {
	return func(_ context.Context, proposed []byte) ([]byte, error) {
		kept, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return kept, err
		}
		return proposed, writeAtomic(path, proposed)
	}
}

// writeAtomic writes a file under another name and then renames it, so that no reader sees an incomplete file.
func writeAtomic(path string, content []byte) error {
	if err := os.WriteFile(path+partialSuffix, content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+partialSuffix, path)
}
