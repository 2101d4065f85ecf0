package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/journal"
	"github.com/slidegate/slidegate/internal/testkit"
)

// disks make small file systems.
var disks = map[string]func(testing.TB) string{
	"tmpfs": func(t testing.TB) string { return testkit.SmallDisk(t, "8m") },
	"ext4":  func(t testing.TB) string { return testkit.SmallExt4(t, 24) },
}

// fillDisk uses up all space but some bytes.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	file := testkit.Must(os.Create(filepath.Join(dir, "filler")))(t)
	var err error
	for size := 1 << 20; size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk should be full, but: %v", err)
	}
	testkit.Must(0, errors.Join(file.Sync(), file.Close()))(t)
}

func freeDisk(t *testing.T, dir string) {
	t.Helper()
	testkit.Must(0, os.Remove(filepath.Join(dir, "filler")))(t)
}

// When the disk is full, records are not durable, and nothing hangs. When there is space again, a checkpoint makes them durable.
func TestFullDiskAndBack(t *testing.T) {
	for kind, mount := range disks {
		for degree, options := range degrees {
			t.Run(kind+" "+degree, func(t *testing.T) {
				disk := mount(t)
				synctest.Test(t, func(t *testing.T) { // the retries are seconds apart
					dir := filepath.Join(disk, "state")
					opts := options(dir)
					opts.Segment = 256 << 10
					testFullDisk(t, disk, dir, opts)
				})
			})
		}
	}
}

func testFullDisk(t *testing.T, disk, dir string, opts journal.Options) {
	j, c, _, err := restored(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	addDurable(t, j, c, true)
	fillDisk(t, disk)
	addUntilFull(t, j, c)
	expectUnrecorded(t, dir, true)
	failed := time.Now()
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		<-j.Due()
		if after := time.Since(failed); after != want {
			t.Errorf("attempt %d came after %v, want %v", i, after, want)
		}
		failed = time.Now()
		if err := c.checkpoint(j); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("got %v from a checkpoint, want that there is no space", err)
		}
		addDurable(t, j, c, false)
		expectNoLeftovers(t, dir, j)
	}
	freeDisk(t, disk)
	<-j.Due()
	testkit.Must(0, j.Begin())(t)
	if j.Err() == nil {
		t.Error("durable again before the checkpoint is complete")
	}
	addDurable(t, j, c, false)
	c.append(j)
	testkit.Must(0, j.Commit())(t)
	if j.Err() != nil {
		t.Errorf("got %v after a checkpoint, want none", j.Err())
	}
	addDurable(t, j, c, true)
	expectNoLeftovers(t, dir, j)
	expectUnrecorded(t, dir, false)

	// The disk becomes full during a checkpoint.
	testkit.Must(0, j.Begin())(t)
	fillDisk(t, disk)
	addUntilFull(t, j, c)
	c.append(j)
	if err := j.Commit(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v from a checkpoint in which records are missing, want that there is no space", err)
	}
	_ = j.Close()

	// And when the next process begins, it still is.
	j, c, report, err := restored(dir, opts)
	if err != nil || !report.Unrecorded || !report.Ended || report.Clean {
		t.Fatalf("Open on a full disk: got %+v, %v, want that the journal was closed when records were not durable", report, err)
	}
	if opts.Synced || !strings.Contains(t.Name(), "ordered") { // otherwise a file without space can be made
		if !errors.Is(j.Err(), syscall.ENOSPC) {
			t.Errorf("got %v on a full disk, want that there is no space", j.Err())
		}
		addDurable(t, j, c, false)
	}
	freeDisk(t, disk)
	<-j.Due()
	testkit.Must(0, c.checkpoint(j))(t)
	addDurable(t, j, c, true)
	want := c.value
	testkit.Must(0, j.Close())(t)
	j, c, report, err = restored(dir, opts)
	if err != nil || c.value != want || !report.Clean || !report.Ended || report.Unrecorded {
		t.Errorf("got the counters %v, %+v and %v, want %v", c.value, report, err, want)
	}
	_ = j.Close()
}

func addUntilFull(t *testing.T, j *journal.Journal, c *counters) {
	t.Helper()
	for i := uint64(0); c.add(j, i%workers); i++ {
		if i > 1e6 {
			t.Fatal("records are still durable on a full disk")
		}
	}
	if !errors.Is(j.Err(), syscall.ENOSPC) {
		t.Fatalf("got %v, want that there is no space", j.Err())
	}
}

// expectUnrecorded checks what the folder says to one who reads it, or to the next process if this one is killed now.
func expectUnrecorded(t *testing.T, dir string, want bool) {
	t.Helper()
	synctest.Wait()
	info, err := journal.Inspect(dir, (&counters{}).replay)
	if err != nil || info.Unrecorded != want || info.Ended {
		t.Errorf("got %+v, %v, want that records are missing: %v", info, err, want)
	}
}

// expectNoLeftovers checks that all files are those of the journal.
func expectNoLeftovers(t *testing.T, dir string, j *journal.Journal) {
	t.Helper()
	synctest.Wait() // a file may be made in advance right now
	var size int64
	for _, entry := range testkit.Must(os.ReadDir(dir))(t) {
		if filepath.Ext(entry.Name()) == ".log" {
			size += testkit.Must(entry.Info())(t).Size()
		}
	}
	if stats := j.Stats(); stats.DiskBytes < size {
		t.Errorf("the files have %d bytes, but the journal says %d", size, stats.DiskBytes)
	}
}
