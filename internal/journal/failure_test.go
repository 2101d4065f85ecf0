package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

// faulty are files of which a sync can fail. Afterwards, none of the file's bytes may be trusted.
type faulty struct {
	journal.Files
	fails  atomic.Bool // the next sync
	used   atomic.Int32
	failed atomic.Pointer[faultyFile]
}

type faultyFile struct {
	journal.File
	files *faulty
}

func (f *faulty) Create(name string) (journal.File, error) {
	file, err := f.Files.Create(name)
	return &faultyFile{file, f}, err
}

func (f *faultyFile) Sync() error {
	if f.files.fails.CompareAndSwap(true, false) {
		f.files.failed.Store(f)
		return errPlanned
	}
	f.use()
	return f.File.Sync()
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	f.use()
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) use() {
	if f.files.failed.Load() == f {
		f.files.used.Add(1)
	}
}

// After a failed sync, nothing is durable until a checkpoint in a new file is, and the file is not used again.
func TestFailedSync(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		synctest.Test(t, func(t *testing.T) {
			if opts.Files == nil {
				opts.Files = journal.Folder(dir)
			}
			files := &faulty{Files: opts.Files}
			opts.Files = files
			j, c, _, err := restored(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			addDurable(t, j, c, true)
			files.fails.Store(true)
			if opts.Synced {
				addDurable(t, j, c, false)
			} else if err := c.checkpoint(j); !errors.Is(err, errPlanned) {
				t.Fatalf("got %v from a checkpoint, want the planned failure", err)
			}
			addDurable(t, j, c, false)
			if !errors.Is(j.Err(), errPlanned) || !strings.Contains(j.Err().Error(), dir) || j.Stats().Failures != 1 {
				t.Errorf("got the error %v and %d failures, want the planned one in %s", j.Err(), j.Stats().Failures, dir)
			}
			<-j.Due()
			testkit.Must(0, c.checkpoint(j))(t)
			addDurable(t, j, c, true)
			if files.used.Load() > 0 {
				t.Errorf("the file was used %d times after its sync had failed", files.used.Load())
			}
			want := c.value
			testkit.Must(0, j.Close())(t)
			j, c, _, err = restored(dir, opts)
			if err != nil || c.value != want {
				t.Errorf("got the counters %v and %v, want %v", c.value, err, want)
			}
			testkit.Must(0, j.Close())(t)
		})
	})
}

// Callers that wait learn that the write failed, and what was recorded in the meantime is not written to the same file.
func TestWaitersLearnOfFailures(t *testing.T) {
	d := newDisk()
	j, c, _, err := restored("disk", journal.Options{Files: d, Synced: true, Segment: small})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	var meantime journal.Position
	d.mu.Lock()
	d.failAt = d.calls + 1
	d.cutAt, d.onCut = d.failAt, func() { meantime, _ = j.Note(filler, 0, 0) }
	d.mu.Unlock()
	if c.add(j, 1) || meantime == 0 || j.Wait(meantime) {
		t.Error("a record is durable although its write failed")
	}
	if d.mu.Lock(); !errors.Is(j.Err(), errPlanned) || d.after > 0 {
		t.Errorf("got %v and %d calls afterwards, want the planned failure and none", j.Err(), d.after)
	}
	d.mu.Unlock()
}

// A checkpoint is due by size, and then the files stay within their bound.
func TestCheckpointIsDueBySize(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		synctest.Test(t, func(t *testing.T) {
			opts.Segment = 64 << 10
			j, _, _ := open(t, dir, opts)
			const live = 10_000 * 24
			var checkpoints, since int
			for n := range 600 {
				for range 250 {
					j.Note(1, 1, 1)
				}
				since += 6_000
				synctest.Wait()
				select {
				case <-j.Due():
				default:
					if since > 9*64<<10+live/2+64<<10 {
						t.Fatalf("%d: no checkpoint is due after %d bytes", n, since)
					}
					continue
				}
				if before := 9*64<<10 - 6_000; since < before {
					t.Fatalf("%d: a checkpoint is due after %d bytes, want at least %d", n, since, before)
				}
				testkit.Must(0, j.Begin())(t)
				since = 0
				for n := range 10 {
					for i := range 1000 {
						j.Note(2, 2, 2)
						if i%4 == 0 {
							j.Note(1, 1, 1) // at the same time
						}
					}
					since += 6_000
					if j.Hurry(int64(n+1) * 24_000) {
						t.Fatalf("it hurries after %d bytes of other records", (n+1)*6_000)
					}
				}
				j.Live(live)
				testkit.Must(0, j.Commit())(t)
				checkpoints++
				if bound := int64(3*live + 16*64<<10); j.Stats().DiskBytes > bound {
					t.Errorf("%d: the files have %d bytes, more than %d", n, j.Stats().DiskBytes, bound)
				}
			}
			if checkpoints < 5 {
				t.Errorf("got %d checkpoints, want at least 5", checkpoints)
			}
			testkit.Must(0, j.Close())(t)
		})
	})
}

// A checkpoint hurries when other records have filled two segments since it began, but not because of its own.
func TestHurries(t *testing.T) {
	j, _, _ := open(t, t.TempDir(), journal.Options{Segment: small})
	testkit.Must(0, j.Begin())(t)
	for own := 0; own < 4*small; own += 24 {
		j.Note(2, 2, 2)
		if j.Hurry(int64(own) + 24) {
			t.Fatalf("it hurries after %d bytes of its own", own+24)
		}
	}
	for others := 0; !j.Hurry(4 * small); others += 24 {
		if others > 3*small {
			t.Fatalf("it does not hurry after %d bytes of other records", others)
		}
		j.Note(1, 1, 1)
	}
}

// The end of a process that was not clean makes a checkpoint due, so that what it left is not read again and again.
func TestCheckpointIsDueAfterKill(t *testing.T) {
	d := newDisk()
	j, c, _, _ := restored("disk", journal.Options{Files: d, Synced: true, Segment: small})
	addDurable(t, j, c, true)
	d = d.afterKill()
	_ = j.Close()
	j, _, report, err := restored("disk", journal.Options{Files: d, Synced: true, Segment: small})
	if err != nil || report.Clean {
		t.Fatalf("got %+v and %v, want an end that is not clean", report, err)
	}
	<-j.Due()
	_ = j.Close()
}

func TestNothingIsRecordedAfterClose(t *testing.T) {
	each(t, func(t *testing.T, dir string, opts journal.Options) {
		j, _, _ := open(t, dir, opts)
		testkit.Must(0, j.Close())(t)
		if at, durable := j.Note(1, 1, 1); at != 0 || durable {
			t.Error("a note was recorded")
		}
		if at, durable := j.Append(1, []byte("x")); at != 0 || durable || j.Wait(at) {
			t.Error("a body was recorded")
		}
		if j.Begin() == nil {
			t.Error("a checkpoint began")
		}
		testkit.Must(0, j.Close())(t)
	})
}

func TestNoteDoesNotAllocate(t *testing.T) {
	for _, degree := range []string{"mapped", "ordered"} {
		dir := filepath.Join(t.TempDir(), degree)
		j, _, _ := open(t, dir, degrees[degree](dir))
		if n := testing.AllocsPerRun(1000, func() { j.Note(1, 2, 3) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", degree, n)
		}
	}
}

// damagedBy closes a journal with a complete checkpoint, changes its files, and returns the error of Open.
func damagedBy(t *testing.T, change func(dir string, names []string)) error {
	t.Helper()
	dir := t.TempDir()
	j, c, _, err := restored(dir, journal.Options{Segment: small})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Must(0, j.Begin())(t)
	for range 3 {
		addDurable(t, j, c, true)
	}
	c.append(j)
	testkit.Must(0, j.Commit())(t)
	addDurable(t, j, c, true)
	testkit.Must(0, j.Close())(t)
	names := testkit.Must(filepath.Glob(filepath.Join(dir, "*.log")))(t)
	slices.Sort(names)
	change(dir, names)
	_, inspected := journal.Inspect(dir, (&counters{}).replay)
	j, _, _, err = restored(dir, journal.Options{Segment: small})
	if fmt.Sprint(inspected) != fmt.Sprint(err) {
		t.Errorf("Inspect: got %v, want %v", inspected, err)
	}
	if err == nil {
		_ = j.Close()
	} else if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "move everything in") {
		t.Errorf("got the error %v, want one that names %s and says what to do", err, dir)
	}
	return err
}

func TestDamageIsAnError(t *testing.T) {
	edit := func(name string, change func(text []byte) []byte) {
		text := testkit.Must(os.ReadFile(name))(t)
		testkit.Must(0, os.WriteFile(name, change(text), 0o600))(t)
	}
	for _, c := range []struct {
		name   string
		change func(dir string, names []string)
		want   error
	}{
		{"nothing", func(string, []string) {}, nil},
		{"a hole in a complete checkpoint", func(_ string, names []string) {
			edit(names[0], func(text []byte) []byte { clear(text[8192:8200]); return text })
		}, journal.ErrDamaged},
		{"a hole of a whole block in a complete checkpoint", func(_ string, names []string) {
			edit(names[1], func(text []byte) []byte { clear(text[8192:12288]); return text })
		}, journal.ErrDamaged},
		{"files with each other's names", func(_ string, names []string) {
			testkit.Must(0, errors.Join(os.Rename(names[1], names[1]+"x"), os.Rename(names[2], names[1]), os.Rename(names[1]+"x", names[2])))(t)
		}, journal.ErrDamaged},
		{"a missing file", func(_ string, names []string) { testkit.Must(0, os.Remove(names[1]))(t) }, journal.ErrDamaged},
		{"the end of a complete checkpoint is missing", func(dir string, names []string) {
			for _, name := range names[1:] {
				testkit.Must(0, os.Remove(name))(t)
			}
		}, journal.ErrDamaged},
		{"all files are missing", func(_ string, names []string) {
			for _, name := range names {
				testkit.Must(0, os.Remove(name))(t)
			}
		}, journal.ErrDamaged},
		{"the first file is missing", func(_ string, names []string) { testkit.Must(0, os.Remove(names[0]))(t) }, journal.ErrDamaged},
		{"a file without a header", func(_ string, names []string) {
			edit(names[len(names)-1], func(text []byte) []byte { clear(text[:4096]); return text })
		}, journal.ErrDamaged},
		{"a file that is too short", func(_ string, names []string) {
			edit(names[1], func(text []byte) []byte { return text[:len(text)-24] })
		}, journal.ErrDamaged},
		{"a file that is too long", func(_ string, names []string) {
			edit(names[1], func(text []byte) []byte { return append(text, 0) })
		}, journal.ErrDamaged},
		{"a newer version", func(_ string, names []string) {
			edit(names[1], func(text []byte) []byte { journal.Version(text, 2, true); return text })
		}, journal.ErrNewer},
		{"another file", func(dir string, _ []string) {
			testkit.Must(0, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("hello"), 0o600))(t)
		}, nil},
	} {
		if got := damagedBy(t, c.change); !errors.Is(got, c.want) || c.want == nil && got != nil {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// A hole between records is what a killed process leaves, but not in what a checkpoint has synced.
func TestHoleOfWholeRecords(t *testing.T) {
	for _, c := range []struct {
		checkpoint bool
		want       error
	}{{false, nil}, {true, journal.ErrDamaged}} {
		dir := t.TempDir()
		j, _, _ := open(t, dir, journal.Options{})
		if c.checkpoint {
			testkit.Must(0, j.Begin())(t)
		}
		for i := range uint64(100) {
			j.Note(1, i, 0)
		}
		if c.checkpoint {
			testkit.Must(0, j.Commit())(t)
		}
		names := testkit.Must(filepath.Glob(filepath.Join(dir, "*.log")))(t)
		file := testkit.Must(os.OpenFile(names[0], os.O_RDWR, 0))(t)
		testkit.Must(file.WriteAt(make([]byte, 10*24), 4096+20*24))(t)
		testkit.Must(0, file.Close())(t)
		info, err := journal.Inspect(dir, func(journal.Record) error { return nil })
		if !errors.Is(err, c.want) || err == nil && (info.Holes != 1 || info.HoleBytes != 240 || info.Records != 90) {
			t.Errorf("in a checkpoint %v: got %+v and %v, want %v", c.checkpoint, info, err, c.want)
		}
	}
}

// A replay that fails ends Open, which leaves the folder as it was.
func TestReplayFails(t *testing.T) {
	dir := t.TempDir()
	j, _, _ := open(t, dir, journal.Options{})
	j.Note(1, 2, 3)
	testkit.Must(0, j.Close())(t)
	if _, _, err := journal.Open(dir, journal.Options{}, func(journal.Record) error { return errPlanned }); !errors.Is(err, errPlanned) {
		t.Errorf("got %v, want the planned failure", err)
	}
	if _, _, got := open(t, dir, journal.Options{}); !slices.Equal(got, log{"note 1 2 3"}) {
		t.Errorf("got %q afterwards, want the note", got)
	}
}

// Attempts to make a checkpoint come less and less often.
func TestAttemptsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, t.TempDir(), journal.Options{Segment: small})
		var got []string
		for range 7 {
			testkit.Must(0, j.Begin())(t)
			j.Abandon()
			began := time.Now()
			<-j.Due()
			got = append(got, time.Since(began).String())
		}
		if want := "[1s 2s 4s 8s 16s 30s 30s]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %v", got, want)
		}
		testkit.Must(0, j.Close())(t)
	})
}

// A disk that is full for a moment, just when a checkpoint begins, makes what follows not durable, and not the folder damaged.
func TestBeginOnFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	files := &shortOfSpace{Files: unmappable{journal.Folder(dir)}}
	j, _, _ := open(t, dir, journal.Options{Files: files, Segment: small})
	for range 10 {
		j.Note(1, 1, 1)
	}
	files.full.Store(true)
	if err := j.Begin(); err == nil && !j.Failing() {
		t.Error("a checkpoint began on a full disk, and all is durable")
	}
	if files.full.Load() {
		t.Fatal("nothing was written")
	}
	if _, err := journal.Inspect(dir, func(journal.Record) error { return nil }); err != nil {
		t.Errorf("the next process finds: %v", err)
	}
}

// shortOfSpace are files of which one write of a word can fail.
type shortOfSpace struct {
	journal.Files
	full atomic.Bool
}

type shortFile struct {
	journal.File
	files *shortOfSpace
}

func (f *shortOfSpace) Create(name string) (journal.File, error) {
	file, err := f.Files.Create(name)
	return &shortFile{file, f}, err
}

func (f *shortFile) WriteAt(p []byte, off int64) (int, error) {
	if len(p) == 8 && f.files.full.CompareAndSwap(true, false) {
		return 0, errPlanned
	}
	return f.File.WriteAt(p, off)
}
