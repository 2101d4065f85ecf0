package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/filelock"
	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

const small = 16 << 10 // the smallest segment

// log collects what is replayed.
type log []string

func (l *log) add(r journal.Record) error {
	*l = append(*l, text(r))
	return nil
}

func text(r journal.Record) string {
	if r.IsNote {
		return fmt.Sprintf("note %d %d %d", r.Tag, r.A, r.B)
	}
	return fmt.Sprintf("kind %d %x", r.Kind, r.Body)
}

// open opens a journal that is closed when the test ends.
func open(t testing.TB, dir string, opts journal.Options) (*journal.Journal, journal.Report, log) {
	t.Helper()
	var l log
	j, report, err := journal.Open(dir, opts, l.add)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j, report, l
}

// degrees are the ways to record: in a mapping, in order, and synced.
var degrees = map[string]func(dir string) journal.Options{
	"mapped":  func(string) journal.Options { return journal.Options{} },
	"ordered": func(dir string) journal.Options { return journal.Options{Files: unmappable{journal.Folder(dir)}} },
	"synced":  func(string) journal.Options { return journal.Options{Synced: true} },
}

// unmappable is a file system that promises nothing.
type unmappable struct{ journal.Files }

func (u unmappable) Create(name string) (journal.File, error) {
	f, err := u.Files.Create(name)
	return unmappableFile{f}, err
}

type unmappableFile struct{ journal.File }

func (unmappableFile) Map(int64) ([]byte, error) { return nil, errors.ErrUnsupported }
func (unmappableFile) Allocate(int64) error      { return errors.ErrUnsupported }

// each runs a test for all degrees.
func each(t *testing.T, test func(t *testing.T, dir string, opts journal.Options)) {
	for name, options := range degrees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			opts := options(dir)
			opts.Segment = small
			test(t, dir, opts)
		})
	}
}

// Records are replayed as they were appended, through many files.
func TestReplaysInOrder(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, report, got := open(t, dir, opts)
		if len(got) != 0 || !report.Clean {
			t.Fatalf("a new folder has %d records; report %+v", len(got), report)
		}
		random := rand.New(rand.NewPCG(1, 2))
		var want log
		for i := range 20_000 {
			if i%3 > 0 {
				tag, a, b := random.Uint32N(1<<28), random.Uint64(), random.Uint64N(3)
				if _, durable := j.Note(tag, a, b); !durable {
					t.Fatal("a note is not durable")
				}
				want = append(want, text(journal.Record{IsNote: true, Tag: tag, A: a, B: b}))
			} else {
				body := make([]byte, random.IntN(200))
				for k := range body {
					body[k] = byte(random.Uint32())
				}
				at, durable := j.Append(uint8(i), body)
				if !durable || i%100 == 0 && !j.Wait(at) {
					t.Fatal("a record is not durable")
				}
				want = append(want, text(journal.Record{Kind: uint8(i), Body: body}))
			}
		}
		testkit.Must(0, j.Close())(t)
		_, report, got = open(t, dir, opts)
		if !slices.Equal(got, want) {
			t.Errorf("got %d records, want %d; first difference %d", len(got), len(want), difference(got, want))
		}
		if !report.Clean || report.Records != len(want) || report.Holes+report.Unfinished != 0 || report.CutAt != "" {
			t.Errorf("got the report %+v, want a clean end", report)
		}
	})
}

func difference(a, b []string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Concurrent writers lose nothing, and the records of each are in order.
func TestConcurrentWriters(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, _, _ := open(t, dir, opts)
		const writers, records = 8, 3000
		var all sync.WaitGroup
		for w := range uint64(writers) {
			all.Go(func() {
				body := bytes.Repeat([]byte{byte(w)}, 40)
				for i := range uint64(records) {
					durable := false
					if i%4 == 3 {
						body[0], body[1] = byte(i), byte(i>>8)
						_, durable = j.Append(byte(w), body)
					} else {
						_, durable = j.Note(uint32(w), i, w)
					}
					if !durable {
						t.Error("a record is not durable")
						return
					}
				}
			})
		}
		all.Wait()
		testkit.Must(0, j.Close())(t)
		next := make([]uint64, writers)
		again, report, err := journal.Open(dir, opts, func(r journal.Record) error {
			w, i := uint64(r.Tag), r.A
			if !r.IsNote {
				w, i = uint64(r.Kind), next[r.Kind]
				if len(r.Body) != 40 || r.Body[0] != byte(i) || r.Body[1] != byte(i>>8) || r.Body[39] != byte(w) {
					return fmt.Errorf("writer %d: got the body %x as record %d", w, r.Body, i)
				}
			}
			if i != next[w] {
				return fmt.Errorf("writer %d: got %d, want %d", w, i, next[w])
			}
			next[w]++
			return nil
		})
		if err != nil || report.Records != writers*records {
			t.Fatalf("got %+v and %v, want %d records", report, err, writers*records)
		}
		testkit.Must(0, again.Close())(t)
	})
}

// A complete checkpoint replaces all that was before it.
func TestCheckpointReplacesTheRest(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, _, _ := open(t, dir, opts)
		for i := range uint64(5000) {
			j.Note(1, i, 0)
		}
		before := j.Stats()
		testkit.Must(0, j.Begin())(t)
		var want log
		for i := range uint64(2000) {
			j.Note(2, i, 0)
			want = append(want, fmt.Sprintf("note 2 %d 0", i))
		}
		testkit.Must(0, j.Commit())(t)
		if after := j.Stats(); after.DiskBytes >= before.DiskBytes || after.LastCheckpoint.IsZero() || journal.CheckpointBytes(j) < 2000*24 {
			t.Errorf("got the stats %+v after a checkpoint, and %+v before", after, before)
		}
		j.Note(3, 0, 0)
		want = append(want, "note 3 0 0")
		testkit.Must(0, j.Close())(t)
		for range 2 { // the second time, the records are in files of two processes
			j, report, got := open(t, dir, opts)
			if !slices.Equal(got, want) || !report.Checkpoint {
				t.Fatalf("got %d records, want %d; report %+v", len(got), len(want), report)
			}
			j.Note(4, 0, 0)
			want = append(want, "note 4 0 0")
			testkit.Must(0, j.Close())(t)
		}
	})
}

// A checkpoint that was not completed does not replace anything.
func TestUnfinishedCheckpoint(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, _, _ := open(t, dir, opts)
		j.Note(1, 0, 0)
		testkit.Must(0, j.Begin())(t)
		if err := j.Begin(); err == nil {
			t.Error("a second checkpoint began while one was running")
		}
		j.Note(2, 0, 0)
		j.Abandon()
		j.Note(3, 0, 0)
		if err := j.Commit(); err == nil {
			t.Error("an abandoned checkpoint was committed")
		}
		testkit.Must(0, j.Close())(t)
		_, report, got := open(t, dir, opts)
		if want := (log{"note 1 0 0", "note 2 0 0", "note 3 0 0"}); !slices.Equal(got, want) || report.Checkpoint {
			t.Errorf("got %q, want %q; report %+v", got, want, report)
		}
	})
}

func TestFolderBelongsToOneProcess(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, journal.Options{})
	_, _, err := journal.Open(dir, journal.Options{}, nil)
	if !errors.Is(err, filelock.ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got the error %v, want one that names %s", err, dir)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open(t, dir, journal.Options{})
	if info := testkit.Must(os.Stat(dir))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("got the mode %v for the folder, want 0700", info.Mode())
	}
	for _, entry := range testkit.Must(os.ReadDir(dir))(t) {
		if info := testkit.Must(entry.Info())(t); info.Mode().Perm() != 0o600 {
			t.Errorf("got the mode %v for %s, want 0600", info.Mode(), entry.Name())
		}
	}
}

func TestLargeBodies(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		opts.Segment = 2 << 20
		j, _, _ := open(t, dir, opts)
		body := bytes.Repeat([]byte("x"), journal.MaxBody)
		for range 5 {
			if _, durable := j.Append(1, body); !durable {
				t.Fatal("a body of MaxBody bytes is not durable")
			}
		}
		if at, durable := j.Append(1, append(body, 'y')); durable || at != 0 {
			t.Error("a larger body was recorded")
		}
		testkit.Must(0, j.Close())(t)
		if _, report, _ := open(t, dir, opts); report.Records != 5 {
			t.Errorf("got %d records, want 5", report.Records)
		}
	})
}

func TestRefusesSegmentSizes(t *testing.T) {
	for _, size := range []int64{-1, 1, 4096, small + 1, 2 << 30} {
		if _, _, err := journal.Open(t.TempDir(), journal.Options{Segment: size}, nil); err == nil || !strings.Contains(err.Error(), "Segment") {
			t.Errorf("%d: got the error %v, want one about Segment", size, err)
		}
	}
}

// Inspect reads while the journal is in use, and finds everything that was recorded before.
func TestInspectWhileOpen(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, _, _ := open(t, dir, opts)
		var want log
		var at journal.Position
		for i := range uint64(3000) {
			at, _ = j.Note(1, i, 0)
			want = append(want, fmt.Sprintf("note 1 %d 0", i))
		}
		j.Wait(at)
		var got log
		info, err := journal.Inspect(dir, got.add)
		if err != nil || !slices.Equal(got, want) || info.Clean || info.DiskBytes == 0 {
			t.Errorf("got %d records, %+v and %v, want %d records", len(got), info, err, len(want))
		}
	})
}
