package memstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rule"
)

// When the disk is full, decisions and documents go on, and say that they are not durable. When there is space again, everything is.
func TestFullDisk(t *testing.T) {
	for _, synced := range []bool{false, true} {
		t.Run(fmt.Sprint("synced ", synced), func(t *testing.T) {
			disk := testkit.SmallDisk(t, "16m")
			synctest.Test(t, func(t *testing.T) { testFullDisk(t, disk, synced) })
		})
	}
}

func testFullDisk(t *testing.T, disk string, synced bool) {
	dir := filepath.Join(disk, "state")
	opts := memstore.Options{Synced: synced}
	st := testkit.Must(memstore.Open(dir, opts))(t)
	limiter := newLimiter(t, st, sliding(1_000_000, time.Hour))
	if d := allow(t, limiter, "before", 1); d.Flags != 0 {
		t.Errorf("got %+v", d)
	}
	filler := filepath.Join(disk, "filler")
	file := testkit.Must(os.Create(filler))(t)
	var err error
	for size := 1 << 20; size >= 512; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if check(t, file.Close()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v, want a full disk", err)
	}
	taken := 0
	for ; taken < 1_000_000; taken++ {
		if d := allow(t, limiter, fmt.Sprint(taken%1000), 1); d.Flags&rule.NotDurable != 0 {
			break
		}
	}
	if d, _ := st.Durability(); !errors.Is(d.Err, syscall.ENOSPC) || d.Failures != 1 {
		t.Fatalf("after %d decisions: got %+v, want that the disk is full", taken, d)
	}
	testkit.Must(st.SwapDocument(t.Context(), "document", []byte("text"), 0))(t)
	allow(t, limiter, "during", 7)
	check(t, os.Remove(filler))
	for d, _ := st.Durability(); d.Err != nil; d, _ = st.Durability() { // it tries again by itself
		testkit.Pass(time.Second)
	}
	if d := allow(t, limiter, "after", 1); d.Flags != 0 {
		t.Errorf("got %+v", d)
	}
	check(t, st.Close())
	st = testkit.Must(memstore.Open(dir, opts))(t)
	limiter = newLimiter(t, st, sliding(1_000_000, time.Hour))
	for key, used := range map[string]int64{"before": 1, "during": 7, "after": 1} {
		if d := testkit.Must(limiter.Peek(t.Context(), key, 1))(t); d.Remaining != 1_000_000-used {
			t.Errorf("%s: %d remain, want %d", key, d.Remaining, 1_000_000-used)
		}
	}
	if text, _, err := st.LoadDocument(t.Context(), "document", 0); err != nil || string(text) != "text" {
		t.Errorf("got the document %q, %v", text, err)
	}
	check(t, st.Close())
}

// While the disk is full, the log says it every ten minutes, and how much space must be free. With that much, all is durable again.
func TestFullDiskIsLogged(t *testing.T) {
	for _, keys := range []int{1, 200_000} {
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			disk := testkit.SmallDisk(t, "64m")
			synctest.Test(t, func(t *testing.T) { testFullDiskIsLogged(t, disk, keys) })
		})
	}
}

func testFullDiskIsLogged(t *testing.T, disk string, keys int) {
	var log lines
	st := testkit.Must(memstore.Open(filepath.Join(disk, "state"), memstore.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))}))(t)
	defer func() { check(t, st.Close()) }()
	limiter := newLimiter(t, st, sliding(1_000_000, time.Hour))
	for i := range keys {
		allow(t, limiter, fmt.Sprint(i), 1)
	}
	check(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", usedBytes(t, disk))))
	if err := st.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v from a checkpoint, want that the disk is full", err)
	}
	for i := 0; allow(t, limiter, fmt.Sprint(i%keys), 1).Flags&rule.NotDurable == 0; i++ {
	}
	testkit.Pass(25 * time.Minute)
	failing := log.with("not durable")
	if len(failing) != 3 {
		t.Fatalf("got %q in 25 minutes, want 3 lines", failing)
	}
	var line struct {
		Needed int64 `json:"needed_bytes"`
	}
	check(t, json.Unmarshal([]byte(failing[2]), &line))
	check(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, fmt.Sprint("size=", usedBytes(t, disk)+line.Needed)))
	testkit.Pass(time.Minute)
	if d, _ := st.Durability(); d.Err != nil || len(log.with("durable again")) != 1 {
		t.Errorf("got %v with %d bytes more, and %q", d.Err, line.Needed, log.with("durable"))
	}
	if most := 2*memstore.CheckpointBytes(st) + 4<<20; line.Needed > most {
		t.Errorf("it says that %d bytes are needed, want at most %d", line.Needed, most)
	}
	t.Logf("%d bytes are needed for %d of a checkpoint", line.Needed, memstore.CheckpointBytes(st))
}

func usedBytes(t *testing.T, disk string) int64 {
	t.Helper()
	var fs syscall.Statfs_t
	check(t, syscall.Statfs(disk, &fs))
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize
}

// lines are those of a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

func (l *lines) with(part string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}
