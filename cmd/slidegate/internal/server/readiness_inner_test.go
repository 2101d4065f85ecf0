package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
)

// check returns immediately even while the store hangs; a hanging store is not pinged again; only changes are logged.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex
		var pinged int
		state := "up"
		ctx, cancel := context.WithCancel(t.Context())
		r := newReadiness(ctx, func(ctx context.Context) error {
			mu.Lock()
			pinged++
			now := state
			mu.Unlock()
			switch now {
			case "hangs":
				<-ctx.Done()
				return ctx.Err()
			case "deaf": // ignores its context too
				testkit.Delay(3 * time.Second)
				return errors.New("too late")
			}
			return nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		crowd := func(next string, after time.Duration, ready bool, pings int) {
			t.Helper()
			mu.Lock()
			state, pinged = next, 0
			mu.Unlock()
			testkit.Pass(after)
			began := time.Now()
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if err := r.check(); (err == nil) != ready {
						t.Errorf("%s: %v", next, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: check took %v", next, took)
			}
			mu.Lock()
			defer mu.Unlock()
			if pinged != pings {
				t.Errorf("%s: the store was pinged %d times, want %d", next, pinged, pings)
			}
		}
		testkit.Pass(time.Millisecond)
		crowd("up", 2*pingEvery, true, 2)
		crowd("hangs", pingEvery+pingTimeout, false, 1)
		crowd("hangs", 4*pingEvery, false, 4)
		crowd("deaf", pingEvery, false, 1)
		crowd("deaf", 4*pingEvery, false, 0) // the ping is still in progress
		testkit.Pass(4 * time.Second)
		crowd("up", 8*pingEvery, true, 3) // the last late ping took half of that time
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "not ready") != 1 || strings.Count(got, "ready again") != 1 {
			t.Errorf("unexpected log:\n%s", got)
		}
		cancel()
		r.close()
	})
}
