package natsembed_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/kit"
)

// disk is a small file system.
type disk struct{ dir, filler string }

// mountDisk mounts a file system in memory.
func mountDisk(t *testing.T, size string) *disk {
	t.Helper()
	dir := testkit.SmallDisk(t, size)
	return &disk{dir: dir, filler: filepath.Join(dir, "filler")}
}

// fill uses up all space.
func (d *disk) fill(t *testing.T) {
	t.Helper()
	file, err := os.Create(d.filler)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk should be full, but: %v", err)
	}
}

func (d *disk) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.filler); err != nil {
		t.Fatal(err)
	}
}

// limitFiles makes every write of this process fail that would make a file larger than size. The test ends the limit.
func limitFiles(t *testing.T, size uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unlimitFiles(t) })
}

func unlimitFiles(t *testing.T) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}

const quota = 1_000_000

// newLimiter returns a limiter over the bucket of a server.
func newLimiter(t *testing.T, server *natsembed.Server, replicas int) *slidegate.Limiter {
	t.Helper()
	var conn *nats.Conn
	if err := kit.Retry(nil, func() (err error) { conn, err = server.Connect(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	var engine *natskv.Engine
	if err := kit.Retry(nil, func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		engine, err = natskv.New(ctx, conn, natskv.Options{Replicas: replicas})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	return kit.Must(slidegate.New(kit.Must(kvstore.New(engine, kvstore.Options{}))(t), slidegate.PerHour(quota)))(t)
}

// ledger has what was charged to each key.
type ledger map[string]struct{ certainly, perhaps int64 }

func (l ledger) charge(t *testing.T, limiter *slidegate.Limiter, key string) error {
	t.Helper()
	_, err := limiter.Allow(t.Context(), key)
	units := l[key]
	if err == nil {
		units.certainly++
	} else {
		units.perhaps++
	}
	l[key] = units
	return err
}

// check fails the test if the store has lost a unit, or has one that was never charged.
func (l ledger) check(t *testing.T, limiter *slidegate.Limiter) {
	t.Helper()
	for key, units := range l {
		var d slidegate.Decision
		err := kit.Retry(nil, func() (err error) { // a cluster may have to elect a leader
			d, err = limiter.Peek(t.Context(), key, 1)
			return err
		})
		if used := quota - d.Remaining; err != nil || used < units.certainly || used > units.certainly+units.perhaps {
			t.Errorf("%s: %d units are used, %v; want %d to %d", key, used, err, units.certainly, units.certainly+units.perhaps)
		}
	}
}

// lines collects a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns the number of lines that contain a text.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}
