package journal_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

const lost = "removed, moved or replaced"

// A folder that is removed, moved or emptied while it is used is noticed within a second, or before a file is made there. Another process
// that begins in its place is not disturbed.
func TestFolderIsLost(t *testing.T) {
	for way, lose := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"emptied": func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
	} {
		for degree, options := range degrees {
			for _, soon := range []bool{false, true} {
				name := way + " " + degree
				if soon {
					name += ", a checkpoint begins"
				}
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						dir := filepath.Join(t.TempDir(), "state")
						opts := options(dir)
						opts.Segment = small
						testFolderIsLost(t, dir, opts, lose, soon)
					})
				})
			}
		}
	}
}

func testFolderIsLost(t *testing.T, dir string, opts journal.Options, lose func(dir string) error, soon bool) {
	j, c, _, err := restored(dir, opts)
	testkit.Must(0, err)(t)
	for range 16 { // the next file is made in advance
		c.add(j, 1)
	}
	synctest.Wait()
	testkit.Must(0, lose(dir))(t)
	if soon {
		if err := c.checkpoint(j); err == nil || !strings.Contains(err.Error(), lost) {
			t.Errorf("a checkpoint: got %v, want that the folder is lost", err)
		}
	}
	testkit.Pass(time.Second)
	if err := j.Err(); err == nil || !strings.Contains(err.Error(), lost) || !strings.Contains(err.Error(), dir) || j.Stats().Failures != 1 {
		t.Errorf("got %v and %d failures, want one because the folder is lost", err, j.Stats().Failures)
	}
	addDurable(t, j, c, false)

	testkit.Must(0, os.RemoveAll(dir))(t)
	other, otherCounters, _, err := restored(dir, opts)
	testkit.Must(0, err)(t)
	addDurable(t, other, otherCounters, true)
	names := listed(t, dir)
	for range 3 {
		<-j.Due()
		if c.checkpoint(j) == nil {
			t.Error("a checkpoint was written into the folder of another process")
		}
		addDurable(t, j, c, false)
	}
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), lost) {
		t.Errorf("Close: got %v, want that the folder is lost", err)
	}
	if got := listed(t, dir); !slices.Equal(got, names) || other.Err() != nil {
		t.Errorf("the other process has %q and %v, want %q", got, other.Err(), names)
	}
	addDurable(t, other, otherCounters, true)
	testkit.Must(0, other.Close())(t)
	again, got, _, err := restored(dir, opts)
	if err != nil || got.value != otherCounters.value {
		t.Fatalf("got the counters %v and %v, want those of the other process, %v", got.value, err, otherCounters.value)
	}
	testkit.Must(0, again.Close())(t)
}

func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	synctest.Wait() // a file may be made in advance right now
	return namesIn(t, dir)
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, entry := range testkit.Must(os.ReadDir(dir))(t) {
		names = append(names, entry.Name())
	}
	return names
}

// A folder that was moved away is used again once it is back.
func TestLostFolderIsBack(t *testing.T) {
	for degree, options := range degrees {
		t.Run(degree, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "state")
				opts := options(dir)
				opts.Segment = small
				j, c, _, err := restored(dir, opts)
				testkit.Must(0, err)(t)
				testkit.Must(0, os.Rename(dir, dir+"-moved"))(t)
				testkit.Pass(time.Second)
				addDurable(t, j, c, false)
				if info, err := journal.Inspect(dir+"-moved", (&counters{}).replay); err != nil || !info.Unrecorded {
					t.Errorf("the moved folder: got %+v, %v, want that it says that records are missing", info, err)
				}
				testkit.Must(0, os.Rename(dir+"-moved", dir))(t)
				<-j.Due()
				testkit.Must(0, c.checkpoint(j))(t)
				addDurable(t, j, c, true)
				testkit.Must(0, j.Close())(t)
				j, got, _, err := restored(dir, opts)
				if err != nil || got.value != c.value {
					t.Errorf("got the counters %v and %v, want %v", got.value, err, c.value)
				}
				testkit.Must(0, j.Close())(t)
			})
		})
	}
}

// A folder that is removed just before its process ends is an error of the end.
func TestFolderIsLostAtTheEnd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j, _, _ := open(t, dir, journal.Options{})
	testkit.Must(0, os.RemoveAll(dir))(t)
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), lost) {
		t.Errorf("got %v, want that the folder is lost", err)
	}
}

// A folder with files of something else, and none of a journal, is an error and not touched. Hidden files and those of a file system do not
// count, nor do others beside a journal's.
func TestFolderOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) { testkit.Must(0, os.WriteFile(filepath.Join(dir, name), nil, 0o600))(t) }
	put(".hidden")
	put("lost+found")
	put("notes.txt")
	if _, _, err := journal.Open(dir, journal.Options{}, nil); err == nil || !strings.Contains(err.Error(), "such as notes.txt") {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if got, want := namesIn(t, dir), []string{".hidden", "lost+found", "notes.txt"}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q now, want %q", got, want)
	}
	testkit.Must(0, os.Remove(filepath.Join(dir, "notes.txt")))(t)
	j, _, _ := open(t, dir, journal.Options{})
	put("notes.txt")
	testkit.Must(0, j.Close())(t)
	open(t, dir, journal.Options{})
	_, _, openErr := journal.Open("", journal.Options{}, nil)
	_, inspectErr := journal.Inspect("", nil)
	for _, err := range []error{openErr, inspectErr} {
		if err == nil || !strings.Contains(err.Error(), "the path of the folder is empty") {
			t.Errorf("got %v for an empty path", err)
		}
	}
}
