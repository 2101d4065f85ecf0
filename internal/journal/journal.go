// Package journal appends records to files in a folder, so that a process that dies forgets none of them. A checkpoint is the whole
// live state, appended to the same files while other records go on; older files are then removed. Open replays the newest complete
// checkpoint and everything after it.
//
// There are two degrees. Without Options.Synced, a record is in memory that the operating system writes to a file, whatever happens to
// the process; a loss of power may forget what was recorded since the last checkpoint. With it, Wait returns when the record is on the disk.
//
// A checkpoint must contain what the records before it said. So a caller makes a change visible to its checkpoints before it calls Note
// or Append, and a checkpoint waits for every change that began before Begin returned.
package journal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// MaxBody is the largest body of a record, if a file is large enough: a file must hold its header and the record.
	MaxBody = 1 << 20

	// DefaultSegment is the size of a file.
	DefaultSegment = 16 << 20

	minSegment = 16 << 10
	maxSegment = 1 << 30
	maxTag     = 1<<28 - 1
)

// Errors that Open and Inspect wrap.
var (
	// ErrDamaged means that files are damaged in a way that the end of a process or a loss of power does not explain.
	ErrDamaged = errors.New("damaged")
	// ErrNewer means that a newer version of this package wrote the files.
	ErrNewer = errors.New("written by a newer version")
)

var errClosed = errors.New("journal: closed")
var errNoPath = errors.New("journal: the path of the folder is empty")

// Options configures a Journal. The zero value is valid.
type Options struct {
	// Synced makes Wait return when a record is on the disk. Otherwise a record survives the end of the process, but not a loss of power.
	Synced bool

	// Files is where the files are. nil means the folder that is given to Open.
	Files Files

	// Segment is the size of a file in bytes, from 16 KiB to 1 GiB. 0 means 16 MiB.
	Segment int64

	// Pause is called at named points, for tests that stop a process there: "reserved", "opened", "written", "before mark", "before
	// removal". nil means no calls.
	Pause func(point string)
}

// Record is what is replayed: Tag, A and B of Note, or Kind and Body of Append. Body is valid only during the call.
type Record struct {
	Tag    uint32
	A, B   uint64
	Kind   uint8
	Body   []byte
	IsNote bool
}

// Position is where a record ends. The zero value is that of a record that was not recorded.
type Position uint64

// Journal appends records. It is safe for concurrent use, except that Begin, Commit and Abandon are called by one goroutine, and that
// Close is the last call.
type Journal struct {
	mapped bool // constant after Open
	pause  func(point string)

	_       [64]byte // the cursor is written by all processors
	cursor  atomic.Uint64
	_       [56]byte
	current atomic.Pointer[segment] // where records go in a mapping; notRecording if they are not recorded
	_       [56]byte

	dir      string // for errors
	files    Files
	lock     Lock
	synced   bool
	size     int64 // of a segment
	boot     [16]byte
	wake     chan struct{} // to the goroutine that prepares segments
	due      chan struct{}
	stopped  chan struct{}
	finished sync.WaitGroup

	preparing sync.Mutex // held while a file is made; taken before mu
	wording   sync.Mutex // held while the word about the folder is changed; taken before mu

	mu       sync.Mutex
	changed  sync.Cond // on mu: a spare is ready or could not be made, a write has ended, records are no longer recorded
	segments []*segment
	spare    *segment
	attempts int   // how many times a spare was wanted
	spareErr error // of the last attempt
	retired  []*segment
	unmapped []*segment // no longer used, for the goroutine that prepares segments
	closed   bool

	previous, previousEnd uint64 // the last segment that this process found, and where its records end
	highest               uint64 // the highest number that is not to be used again
	begun                 bool   // this process has begun a segment

	writer writer
	failure
	checkpoint
}

// Open locks the folder, replays its records, and begins a new file. It creates the folder if there is none. If the disk is full, the
// journal is opened all the same, and Err returns why nothing is recorded.
func Open(dir string, opts Options, replay func(Record) error) (*Journal, Report, error) {
	if opts.Segment == 0 {
		opts.Segment = DefaultSegment
	}
	if opts.Segment < minSegment || opts.Segment > maxSegment || opts.Segment%headerBytes != 0 {
		return nil, Report{}, fmt.Errorf("journal: Segment: must be a multiple of %d from %d to %d, not %d", headerBytes, minSegment, maxSegment, opts.Segment)
	}
	if opts.Files == nil {
		if dir == "" {
			return nil, Report{}, errNoPath
		}
		if err := folder(dir).checkOwner(); err != nil {
			return nil, Report{}, fmt.Errorf("journal: %w", err)
		}
		opts.Files = folder(dir)
	}
	lock, err := opts.Files.Lock()
	if err != nil {
		return nil, Report{}, fmt.Errorf("journal: %w", err)
	}
	found, err := read(dir, opts.Files, lock.Word(), replay)
	if err != nil {
		_ = lock.Close()
		return nil, found.Report, err
	}
	j := &Journal{
		dir: dir, files: opts.Files, lock: lock, synced: opts.Synced, size: opts.Segment, boot: bootID(opts.Files), pause: opts.Pause,
		wake: make(chan struct{}, 1), due: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	j.changed.L = &j.mu
	j.current.Store(notRecording)
	j.cursor.Store(headerBytes) // any value above 0, which means "not recorded"
	if err := j.start(found); err != nil {
		_ = lock.Close()
		return nil, found.Report, err
	}
	return j, found.Report, nil
}

// Note appends a record of two words and a tag of at most 28 bits. durable is false if it was not recorded, or is not certain to be found
// again until the next checkpoint, for example because the disk is full.
func (j *Journal) Note(tag uint32, a, b uint64) (at Position, durable bool) {
	if !j.mapped {
		return j.writeNote(tag, a, b)
	}
	pos := j.cursor.Add(noteBytes) - noteBytes
	s := j.current.Load()
	off := pos - s.base
	if off > s.lastNote {
		return j.noteElsewhere(pos, tag, a, b)
	}
	j.putNote(s, off+headerBytes, tag, a, b)
	if off%wakeBytes < noteBytes {
		j.wakeUp()
	}
	return Position(pos + noteBytes), s.durable.Load()
}

// Append appends a record with a body of at most MaxBody bytes, which must also fit into a file. A larger one is not recorded.
func (j *Journal) Append(kind uint8, body []byte) (at Position, durable bool) {
	if len(body) > MaxBody || bodyBytes(len(body)) > uint64(j.size)-headerBytes {
		return 0, false
	}
	if !j.mapped {
		return j.writeBody(kind, body)
	}
	return j.appendMapped(kind, body)
}

// Wait waits until the record is on the disk, with Options.Synced. Otherwise it returns at once. It reports whether the record will be
// found again.
func (j *Journal) Wait(at Position) (durable bool) {
	if !j.synced || at == 0 {
		return at != 0
	}
	return j.writer.wait(j, uint64(at))
}

// End returns the end of everything that was recorded so far.
func (j *Journal) End() Position { return Position(j.cursor.Load()) }

// Failing reports whether Err is not nil. It takes no lock.
func (j *Journal) Failing() bool { return j.failure.now.Load() }

// Err returns why records are not durable now, or nil if they are. After Close, they are not.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed && j.failure.err == nil {
		return errClosed
	}
	return j.failure.err
}

// Stats describes a journal at one moment.
type Stats struct {
	DiskBytes      int64     // of all files, with the space that is reserved
	LastCheckpoint time.Time // when the last one was complete; zero if none was since Open
	Failures       int       // how many times records stopped being durable
}

// Stats returns a description of the journal.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{DiskBytes: j.diskBytesLocked(), LastCheckpoint: j.checkpoint.at, Failures: j.failure.count}
}

// Close syncs what was recorded, and marks the end as clean unless records are not durable. Later records are not recorded. No other call
// may run at the same time.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.failure.now.Store(true)
	failed := j.failure.err
	j.failure.stop()
	j.mu.Unlock()
	close(j.stopped)
	j.finished.Wait()
	err := failed
	if failed == nil {
		if err = j.lock.Check(); err == nil {
			err = j.markClosed()
		}
	}
	if err != nil {
		word := wordEnded
		if !hadFiles(j.lock.Word()) {
			word = wordEndedNothing
		}
		_ = j.lock.SetWord(word) // which needs no space; without it, the end looks like that of a killed process
	}
	j.mu.Lock()
	j.current.Store(notRecording)
	j.changed.Broadcast()
	for _, s := range j.segments {
		s.release()
	}
	if j.spare != nil {
		j.spare.release()
		_ = j.remove(j.spare.name())
	}
	j.mu.Unlock()
	return errors.Join(err, j.lock.Close())
}
