package natsembed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore/natsembed"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
)

const (
	cannotWrite = "the server cannot write to its folder"
	canWrite    = "the server can write to its folder again"
	starts      = "Starting nats-server"
	// soon is how long a server may take to recover: it checks its folder every second, and this machine may be busy.
	soon = 10 * time.Second
)

// A server whose disk was full recovers when there is space again, every time, and has lost nothing that was acknowledged.
func TestFullDisk(t *testing.T) {
	d := mountDisk(t, "1536k")
	testRecovery(t, d.dir, d.fill, d.free)
}

// limited is the variable that tells a process to limit the size of its files.
const limited = "TEST_LIMIT_FILES"

// The same is true if the files cannot grow for another reason, which needs no rights to test. It runs in a process of its own, because
// the limit is the process's.
func TestFilesCannotGrow(t *testing.T) {
	if os.Getenv(limited) != "" {
		testRecovery(t, t.TempDir(), func(t *testing.T) { limitFiles(t, 8<<10) }, unlimitFiles)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestFilesCannotGrow$", "-test.v")
	cmd.Env = append(os.Environ(), limited+"=yes")
	kit.KillWithParent(cmd)
	out, err := cmd.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// A bucket that cannot be created because the disk is full is created when there is space, and attempts leak nothing.
func TestBucketIsCreatedAfterFullDisk(t *testing.T) {
	d := mountDisk(t, "1536k")
	server := kit.Must(natsembed.Start(natsembed.Options{Dir: filepath.Join(d.dir, "nats")}))(t)
	t.Cleanup(server.Close)
	conn := kit.Must(server.Connect())(t)
	t.Cleanup(conn.Close)
	d.fill(t)
	_, before := resources(t)
	for failed := 0; failed < 20; failed++ {
		if engine, err := natskv.New(t.Context(), conn, natskv.Options{}); err == nil {
			engine.Close()
			t.Fatal("the bucket was created on a full disk")
		}
		kit.Eventually(t, "the end of the connection", func() bool { return !conn.IsConnected() })
	}
	if _, files := resources(t); files > before+1 { // the first attempt leaks one
		t.Errorf("%d files are open after the attempts, and %d were before", files, before)
	}
	d.free(t)
	freed := time.Now()
	limiter, counts := newLimiter(t, server, 1), ledger{}
	if err := counts.charge(t, limiter, "key"); err != nil || time.Since(freed) > soon {
		t.Errorf("%v after there was space again: %v", time.Since(freed), err)
	}
}

// testRecovery runs a server in dir, in which fill makes writes fail and free ends that.
func testRecovery(t *testing.T, dir string, fill, free func(t *testing.T)) {
	log := &lines{}
	dir = filepath.Join(dir, "nats")
	server := kit.Must(natsembed.Start(natsembed.Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))(t)
	t.Cleanup(server.Close)
	limiter, counts := newLimiter(t, server, 1), ledger{}
	var goroutines, files int
	for round := 1; round <= 2; round++ {
		for i := range 50 {
			if err := counts.charge(t, limiter, fmt.Sprint("key ", i)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		fill(t)
		err := errors.New("no error yet")
		kit.Eventually(t, "an error", func() bool { err = counts.charge(t, limiter, "key 1"); return err != nil })
		if !errors.Is(err, store.ErrDown) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("round %d: the call that met the full disk ended with %v, want an error that wraps ErrDown", round, err)
		}
		for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
			begun := time.Now()
			err := counts.charge(t, limiter, "key 2")
			if !errors.Is(err, store.ErrDown) || !errors.Is(err, store.ErrUndone) || time.Since(begun) > soon/20 { // less than the store's timeout of a second
				t.Fatalf("round %d: got %v after %v, want an error soon that wraps ErrDown and ErrUndone", round, err, time.Since(begun))
			}
		}
		awaitChecks(t, dir, 2)
		if n := log.count(starts); n != round {
			t.Errorf("round %d: NATS was started %d times while the disk was full", round, n-round)
		}
		free(t)
		freed := time.Now()
		err = kit.Retry(nil, func() error { return counts.charge(t, limiter, "key 3") })
		if took := time.Since(freed); err != nil || took > soon {
			t.Fatalf("round %d: %v after there was space again: %v", round, took, err)
		} else {
			t.Logf("round %d: recovered after %v", round, took.Round(time.Millisecond))
		}
		counts.check(t, limiter)
		kit.Eventually(t, "the end of the outage in the log", func() bool { return log.count(canWrite) == round })
		if log.count(cannotWrite) != round || log.count("level=ERROR") != round || log.count(starts) != round+1 {
			t.Errorf("round %d: the outage was logged %d times, there are %d errors, and NATS was started %d times", round, log.count(cannotWrite),
				log.count("level=ERROR"), log.count(starts)-1)
		}
		if round == 1 {
			goroutines, files = resources(t)
		}
	}
	kit.Eventually(t, fmt.Sprintf("%d goroutines and %d files, as after the first round", goroutines, files), func() bool {
		g, f := resources(t)
		return g <= goroutines && f <= files
	})
}

// awaitChecks waits until the server has checked its folder some times.
func awaitChecks(t *testing.T, dir string, n int) {
	t.Helper()
	var last time.Time
	kit.Eventually(t, "checks of the folder", func() bool {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !info.ModTime().Equal(last) {
			last = info.ModTime()
			n--
		}
		return n < 0
	})
}

// resources returns the numbers of goroutines and of open files.
func resources(t *testing.T) (goroutines, files int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(open)
}
