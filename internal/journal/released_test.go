package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

const released = "testdata/released"

// The files that a released version has written are read: those of a process that died after a checkpoint, and those of the next one.
// They are never changed; another form of files gets another folder here.
func TestReadsReleasedFiles(t *testing.T) {
	if _, err := os.Stat(released); os.IsNotExist(err) && testkit.Adds() {
		writeReleased(t)
	}
	want := []string{"7 " + strings.Repeat("checkpoint ", 50)} // the first hundred are in it
	for i := 100; i < 700; i++ {
		want = append(want, line(i))
	}
	want = append(want, line(1000))
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(released)); err != nil {
		t.Fatal(err)
	}
	j, got, report := reopen(t, dir)
	if !slices.Equal(got, want) || !report.Clean || !report.Checkpoint {
		t.Errorf("got %d records, %+v, want %d; the first %s, want %s", len(got), report, len(want), got[:min(2, len(got))], want[:2])
	}
	record(t, j, 2000)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j, got, _ = reopen(t, dir)
	if !slices.Equal(got, append(want, line(2000))) {
		t.Errorf("continued: got %d records, want one more than %d", len(got), len(want))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// line describes the i-th record: every tenth has a body, the others are notes.
func line(i int) string {
	if i%10 == 0 {
		return fmt.Sprintf("9 body %d", i)
	}
	return fmt.Sprintf("note %d %d %d", i, i*i, uint64(1)<<63+uint64(i))
}

func record(t *testing.T, j *journal.Journal, i int) {
	t.Helper()
	var durable bool
	if i%10 == 0 {
		_, durable = j.Append(9, fmt.Appendf(nil, "body %d", i))
	} else {
		_, durable = j.Note(uint32(i), uint64(i*i), uint64(1)<<63+uint64(i))
	}
	if !durable {
		t.Fatalf("record %d was not recorded: %v", i, j.Err())
	}
}

func reopen(t *testing.T, dir string) (j *journal.Journal, got []string, report journal.Report) {
	t.Helper()
	j, report, err := journal.Open(dir, journal.Options{Segment: 16 << 10}, func(r journal.Record) error {
		if r.IsNote {
			got = append(got, fmt.Sprintf("note %d %d %d", r.Tag, r.A, r.B))
		} else {
			got = append(got, fmt.Sprintf("%d %s", r.Kind, r.Body))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, got, report
}

// writeReleased writes the files.
func writeReleased(t *testing.T) {
	dir, dead := t.TempDir(), filepath.Join(t.TempDir(), "dead")
	j, _, _ := reopen(t, dir)
	for i := range 100 {
		record(t, j, i)
	}
	for _, step := range []func() error{
		j.Begin,
		func() error {
			j.Append(7, []byte(strings.Repeat("checkpoint ", 50)))
			for i := 100; i < 150; i++ {
				record(t, j, i)
			}
			return nil
		},
		j.Commit,
		func() error {
			for i := 150; i < 700; i++ {
				record(t, j, i)
			}
			return os.CopyFS(dead, os.DirFS(dir))
		},
		j.Close,
		func() error {
			next, _, _ := reopen(t, dead)
			record(t, next, 1000)
			return next.Close()
		},
		func() error { return os.Remove(filepath.Join(dead, "lock")) },
		func() error { return os.CopyFS(released, os.DirFS(dead)) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}
