package memstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/memstore"
)

// At any moment of full load, the folder's files take at most three times the live state and sixteen files, with the space that is
// reserved in advance. TEST_LONG is how many times as many keys are live, in files of the usual size.
func TestDiskAtSaturation(t *testing.T) {
	for _, c := range []struct {
		synced  bool
		callers int // many, if they share each wait for the disk
		segment int64
	}{{false, 4, 2 << 20}, {true, 512, 256 << 10}} {
		t.Run(fmt.Sprint("synced ", c.synced), func(t *testing.T) {
			if rounds() > 1 {
				c.segment = 16 << 20
			}
			memstore.WithSegment(t, c.segment)
			testDiskAtSaturation(t, c.synced, c.callers, 25_000*rounds(), c.segment)
		})
	}
}

func testDiskAtSaturation(t *testing.T, synced bool, callers, keys int, segment int64) {
	dir := filepath.Join(t.TempDir(), "state")
	st := testkit.Must(memstore.Open(dir, memstore.Options{Synced: synced, MaxBytes: 1 << 30}))(t)
	defer func() { check(t, st.Close()) }()
	limiter := newLimiter(t, st, sliding(1_000_000, time.Hour))
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < keys; i += callers {
				allow(t, limiter, fmt.Sprint(i), 1)
			}
		})
	}
	all.Wait()
	check(t, st.Checkpoint())
	live := memstore.CheckpointBytes(st)
	bound := 3*live + 16*segment

	done, sample := make(chan struct{}), make(chan struct{}, 1)
	for c := range callers {
		all.Go(func() {
			for i := c; ; i += 7919 { // a prime
				select {
				case <-done:
					return
				default:
				}
				if allow(t, limiter, fmt.Sprint(i%keys), 1); i%64 == 0 {
					select {
					case sample <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	var most int64
	var samples, checkpoints int
	for last := (time.Time{}); checkpoints < 5 && !t.Failed(); samples++ {
		<-sample
		if most = max(most, diskBytes(t, dir)); most > bound {
			t.Errorf("the files take %d bytes, more than %d", most, bound)
		}
		if d, _ := st.Durability(); d.Err != nil {
			t.Error(d.Err)
		} else if d.Checkpoint != last {
			last = d.Checkpoint
			checkpoints++
		}
	}
	close(done)
	all.Wait()
	t.Logf("%d keys, %d bytes live: at most %d bytes of %d, in %d samples over %d checkpoints", keys, live, most, bound, samples, checkpoints)
}

// diskBytes returns how much space the files of a folder take.
func diskBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	for _, entry := range testkit.Must(os.ReadDir(dir))(t) {
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) { // removed meanwhile
			continue
		}
		n += testkit.Must(info, err)(t).Sys().(*syscall.Stat_t).Blocks * 512
	}
	return n
}
