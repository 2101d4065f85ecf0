package journal_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
)

// elsewhere are files of another machine.
type elsewhere struct{ journal.Files }

func (elsewhere) BootID() [16]byte { return [16]byte{1} }

// A copy that is made file by file while records go on and checkpoints remove files, as docs/state.md says, has all that was recorded
// before it was begun, on this machine and on another one.
func TestCopyWhileRunning(t *testing.T) {
	const rounds = 60
	for _, synced := range []bool{false, true} {
		dir, copies := t.TempDir(), t.TempDir()
		j, _, err := journal.Open(dir, journal.Options{Segment: 64 << 10, Synced: synced}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		recorded := uint64(0)
		add := func() {
			mu.Lock()
			defer mu.Unlock()
			at, _ := j.Note(1, recorded+1, 0)
			if !j.Wait(at) {
				t.Errorf("not durable: %v", j.Err())
			}
			recorded++
		}
		checkpoint := func() error {
			mu.Lock()
			err := j.Begin()
			j.Append(1, binary.LittleEndian.AppendUint64(nil, recorded))
			mu.Unlock()
			return errors.Join(err, j.Commit())
		}
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-j.Due():
					if err := checkpoint(); err != nil {
						t.Error(err)
					}
				default:
					add()
				}
			}
		})
		again := 0
		for range rounds {
			copied := filepath.Join(copies, "copy")
			var before uint64
			for {
				mu.Lock()
				before = recorded
				mu.Unlock()
				err := os.CopyFS(copied, os.DirFS(dir))
				if err == nil {
					_, err = journal.Inspect(copied, func(journal.Record) error { return nil })
				}
				if err == nil {
					break
				}
				if again++; !errors.Is(err, os.ErrNotExist) && !errors.Is(err, journal.ErrDamaged) || again > 100*rounds {
					t.Fatal(err)
				}
				remove(t, copied)
			}
			moved := filepath.Join(copies, "moved")
			if err := os.CopyFS(moved, os.DirFS(copied)); err != nil {
				t.Fatal(err)
			}
			for _, files := range []journal.Files{journal.Folder(copied), elsewhere{journal.Folder(moved)}} {
				found := uint64(0)
				one, _, err := journal.Open("copy", journal.Options{Segment: 64 << 10, Files: files}, func(r journal.Record) error {
					switch {
					case !r.IsNote:
						found = max(found, binary.LittleEndian.Uint64(r.Body))
					case r.A == found+1:
						found++
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if found < before {
					t.Errorf("synced %v, %T: %d records before the copy was begun, and %d in it", synced, files, before, found)
				}
				_ = one.Close()
			}
			remove(t, copied)
			remove(t, moved)
		}
		close(stop)
		running.Wait()
		t.Logf("synced %v: %d records, %d copies, %d of them made again", synced, recorded, rounds, again)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
