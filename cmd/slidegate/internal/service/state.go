package service

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/internal/filelock"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// state is the file that preserves a memory store across restarts, or only its documents if the counts are elsewhere.
type state struct {
	path  string
	store *memstore.Store
	log   *slog.Logger

	saving sync.Mutex   // held while the file is written, so that an older state never replaces a newer one
	saved  atomic.Int64 // time of the last save, in Unix milliseconds
	failed atomic.Int64 // number of failed saves
}

// restore returns the store that was saved at path, or a new one if there is no such file. A file that cannot be read is an error:
// starting empty would admit clients that the limits had refused.
func restore(path string, opts memstore.Options) (*memstore.Store, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return memstore.New(opts)
	}
	if err != nil {
		return nil, invalid("State", "%w", err)
	}
	defer file.Close()
	store, err := memstore.Restore(file, opts)
	if errors.Is(err, memstore.ErrNewer) {
		return nil, invalid("State", "%s: %w", path, err)
	}
	if err != nil {
		return nil, invalid("State", "%s: %w; move it away to start empty", path, err)
	}
	return store, nil
}

// removeLeftovers removes the partial files of processes that were killed while writing.
func (s *state) removeLeftovers() {
	left, _ := filepath.Glob(quoteGlob(s.path) + ".*" + partialSuffix)
	for _, path := range left {
		_ = os.Remove(path) // a leftover file is harmless
	}
}

// quoteGlob returns a path that filepath.Glob takes literally.
func quoteGlob(path string) string {
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`).Replace(path)
}

// partialSuffix is the suffix of files that are not completely written.
const partialSuffix = ".new"

// save writes the file under another name and then renames it, so that there is always a complete file.
func (s *state) save() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	folder := filepath.Dir(s.path)
	file, err := os.CreateTemp(folder, filepath.Base(s.path)+".*"+partialSuffix)
	if err != nil {
		return invalid("State", "%w", err)
	}
	defer os.Remove(file.Name()) // does nothing after the rename
	err = s.store.Snapshot(file)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), s.path)
	}
	if err == nil {
		err = syncFolder(folder)
	}
	if err != nil {
		return invalid("State", "%w", err)
	}
	s.saved.Store(time.Now().UnixMilli())
	return nil
}

// syncFolder makes a rename durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// saveRegularly saves regularly until ctx ends. The final save is up to the caller.
func (s *state) saveRegularly(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.saveOrLog()
		}
	}
}

// saveOrLog saves, and logs and counts a failure.
func (s *state) saveOrLog() {
	if err := s.save(); err != nil {
		s.failed.Add(1)
		s.log.Error("state not saved; a crash would lose the counts and rulings in memory", slog.Any("error", err))
	}
}

// savedDocuments is a store whose file is written at every change of a document, since a ruling must not be lost. The change is made
// even if the file cannot be written.
type savedDocuments struct {
	*memstore.Store
	state *state
}

// SwapDocument replaces a document and writes the file.
func (s savedDocuments) SwapDocument(ctx context.Context, name string, document []byte, revision uint64) (uint64, error) {
	revision, err := s.Store.SwapDocument(ctx, name, document, revision)
	if err == nil {
		s.state.saveOrLog()
	}
	return revision, err
}

// fileLock reserves a state file for one process for as long as the process lives: the operating system releases the lock when
// the process ends, however it ends.
type fileLock struct{ file *os.File }

// lockState locks the state at path. The lock is a separate file next to it, since the state file itself is replaced at every
// save.
func lockState(path string) (*fileLock, error) {
	name := path + ".lock"
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, invalid("State", "%w", err)
		}
		if err := filelock.Lock(file); err != nil {
			defer file.Close()
			if errors.Is(err, filelock.ErrLocked) {
				return nil, invalid("State", "%s is in use by %s; give each process its own file, or share the counts through Redis or PostgreSQL",
					path, holder(file))
			}
			return nil, invalid("State", "%s: %w", name, err)
		}
		if !isSameFile(file, name) { // the previous holder has removed it in the meantime
			file.Close()
			continue
		}
		if err := writeHolder(file); err != nil {
			return nil, err
		}
		return &fileLock{file}, nil
	}
}

// isSameFile reports whether an open file is still the one with this name.
func isSameFile(file *os.File, name string) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(name)
	return err == nil && os.SameFile(own, current)
}

// writeHolder writes the holder of the lock into its file.
func writeHolder(file *os.File) error {
	err := file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		file.Close()
		return invalid("State", "%w", err)
	}
	return nil
}

// holder describes the process that holds the lock.
func holder(file *os.File) string {
	text := make([]byte, 32)
	n, _ := file.ReadAt(text, 0) // io.EOF is expected
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		return "process " + strconv.Itoa(pid)
	}
	return "another process"
}

// release removes the lock's file while no other process can hold it, and releases the lock.
func (l *fileLock) release() {
	if l == nil {
		return
	}
	_ = os.Remove(l.file.Name()) // a leftover file is harmless
	_ = l.file.Close()
}

// keeper returns the keeper of the key that signs reservations: a document of the store.
func (s *Server) keeper() gate.Keeper {
	if len(s.opts.ReservationKey) > 0 {
		return gate.KeyFrom(s.opts.ReservationKey)
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
