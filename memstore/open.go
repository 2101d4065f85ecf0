package memstore

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/rule"
)

// Errors of Open.
var (
	// ErrDamaged is wrapped by errors that report a folder with damaged files, or with files of something else.
	ErrDamaged = journal.ErrDamaged
	// ErrNewer is wrapped by errors that report a folder that was written by a newer version of Slidegate.
	ErrNewer = journal.ErrNewer
)

// segmentBytes is the size of a file; 0 means what the journal prefers.
var segmentBytes int64

// Open returns a store that survives the death of the process: it continues from what is in a folder, and records there what it
// decides. A folder that does not exist is made; it belongs to one process at a time. Time that has passed since counts as passed.
//
// Whatever a request was answered is not forgotten when the process dies, is killed or runs out of memory. After a power loss, the
// store continues from what the system had written to the disk. With Options.Synced nothing is forgotten then either, because a request
// that changes something is answered when it is on the disk.
//
// If the folder cannot be written, for example because the disk is full, the store goes on in memory, and answers have the flag
// NotDurable. It tries again regularly, and continues to record when there is space; see Durability.
//
// Keys that do not fit into a smaller MaxBytes are forgotten like live keys in a full store, even with RefuseWhenFull. The folder may
// have more limits than MaxLimits; limits that are not requested do not count.
//
// The folder takes up to three times the memory that is in use, and 256 MB. It has the secret of the hash and the documents (see
// store.Documents), but no keys. Damage is an error, and not a store that has forgotten something; an unfinished end, as a death of
// the process or a power loss leaves it, is logged.
func Open(dir string, opts Options) (*Store, error) {
	s, err := newStore(opts)
	if err != nil {
		return nil, err
	}
	rand.Read(s.key[:]) //nolint:errcheck // it never fails; see crypto/rand
	k := &keeper{synced: opts.Synced, pause: opts.pause, stop: make(chan struct{}), stopped: make(chan struct{})}
	s.keeper, s.opened = k, s.clock.read()
	r := &replayer{store: s, dir: dir, plans: map[uint32]*plan{}}
	real := s.clock
	s.clock = clock{now: func() rule.Micros { return r.now }}
	j, report, err := journal.Open(dir, journal.Options{Synced: opts.Synced, Segment: segmentBytes, Pause: opts.pause}, r.replay)
	if err != nil {
		return nil, fmt.Errorf("memstore: %w", err)
	}
	s.clock, k.journal = real, j
	if opts.Logger != nil {
		tellEnd(opts.Logger, dir, &report)
	}
	if !r.known {
		j.Append(kindStore, s.key[:])
	}
	go k.run(s)
	return s, nil
}

// tellEnd logs what the last process left, if that is not the whole state.
func tellEnd(to *slog.Logger, dir string, found *journal.Report) {
	if found.Unrecorded {
		to.Warn("memory: the last process could not record what it decided before it ended, so that is lost", slog.String("folder", dir))
	}
	if found.PowerLoss || found.Holes+found.Unfinished > 0 || found.Cut > 0 {
		to.Warn("memory: the recorded state ended with the death of the process or a loss of power", slog.String("folder", dir),
			slog.Bool("power_loss", found.PowerLoss), slog.Int("skipped", found.Holes+found.Unfinished), slog.Int64("dropped_bytes", found.Cut),
			slog.String("dropped_from", found.CutAt))
	}
}

// run writes checkpoints when they are due, which is also when decisions are not durable.
func (k *keeper) run(s *Store) {
	defer close(k.stopped)
	log := failureLog{to: s.opts.Logger, space: s.checkpointSpace}
	for {
		select {
		case <-k.stop:
			return
		case <-k.journal.Due():
			log.tell(k.journal.Err())
			_ = s.Checkpoint() // it is tried again, and the journal says whether that matters
			log.tell(k.journal.Err())
		}
	}
}

// checkpointSpace returns how much space a checkpoint takes, in whole files. The records of a state take no more than it takes in memory.
func (s *Store) checkpointSpace() int64 {
	file := cmp.Or(segmentBytes, journal.DefaultSegment)
	bytes := s.Stats().Bytes
	s.mu.Lock()
	for _, d := range s.documents {
		bytes += int64(len(d.text))
	}
	s.mu.Unlock()
	return (bytes/file + 1) * file
}

// repeatAfter is how often the log says again that decisions are still not durable.
const repeatAfter = 10 * time.Minute

// failureLog logs the beginning and the end of a time in which decisions are not durable, and in between that it lasts.
type failureLog struct {
	to    *slog.Logger // may be nil
	space func() int64 // that a checkpoint takes
	last  time.Time    // of the last line about the failure; zero if there is none
}

func (l *failureLog) tell(err error) {
	now := time.Now()
	switch {
	case l.to == nil:
	case err == nil && !l.last.IsZero():
		l.last = time.Time{}
		l.to.Info("memory: decisions are durable again")
	case err != nil && (l.last.IsZero() || now.Sub(l.last) >= repeatAfter):
		l.last = now
		about := []any{slog.Any("error", err)}
		if journal.IsFull(err) {
			about = append(about, slog.Int64("needed_bytes", l.space()))
		}
		l.to.Error("memory: decisions are not durable; a crash would forget them", about...)
	}
}

// Close ends the recording of a store that Open returned, once all that it has recorded is on the disk. Requests that are decided
// afterwards have the flag NotDurable. Other stores need not be closed.
func (s *Store) Close() error {
	k := s.keeper
	if k == nil {
		return nil
	}
	k.once.Do(func() {
		close(k.stop)
		<-k.stopped
		if err := k.journal.Close(); err != nil {
			k.closed = fmt.Errorf("memstore: closing: what was decided last may not be recorded: %w", err)
		}
	})
	return k.closed
}

// Durability describes how a store that Open returned keeps what it decides.
type Durability struct {
	Err        error     // why decisions are not durable now, for example because the store is closed; nil if they are
	Bytes      int64     // of the folder's files
	Checkpoint time.Time // when the last checkpoint was completed
	Failures   int64     // how often recording failed
}

// Durability returns the state of the recording, and false if the store is in memory only.
func (s *Store) Durability() (Durability, bool) {
	if s.keeper == nil {
		return Durability{}, false
	}
	j := s.keeper.journal
	stats := j.Stats()
	return Durability{Err: j.Err(), Bytes: stats.DiskBytes, Checkpoint: stats.LastCheckpoint, Failures: int64(stats.Failures)}, true
}
