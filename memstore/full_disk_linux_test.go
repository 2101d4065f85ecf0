package memstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
