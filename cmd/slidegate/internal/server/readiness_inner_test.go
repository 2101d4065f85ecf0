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

// A question is answered at once, also while the store hangs; the store is asked no more often than that; the log tells of changes alone.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex
		var asked int
		state := "up"
		ctx, cancel := context.WithCancel(t.Context())
		r := newReadiness(ctx, func(ctx context.Context) error {
			mu.Lock()
			asked++
			now := state
			mu.Unlock()
			switch now {
			case "hangs":
				<-ctx.Done()
				return ctx.Err()
			case "deaf": // to its context too
				testkit.Delay(3 * time.Second)
				return errors.New("too late")
			}
			return nil
		}, slog.New(slog.NewTextHandler(&log, nil)))
		crowd := func(next string, after time.Duration, ready bool, pings int) {
			t.Helper()
			mu.Lock()
			state, asked = next, 0
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
				t.Errorf("%s: an answer took %v", next, took)
			}
			mu.Lock()
			defer mu.Unlock()
			if asked != pings {
				t.Errorf("%s: the store was asked %d times, want %d", next, asked, pings)
			}
		}
		testkit.Pass(time.Millisecond)
		crowd("up", 2*pingEvery, true, 2)
		crowd("hangs", pingEvery+pingTimeout, false, 1)
		crowd("hangs", 4*pingEvery, false, 4)
		crowd("deaf", pingEvery, false, 1)
		crowd("deaf", 4*pingEvery, false, 0) // it is still being asked
		testkit.Pass(4 * time.Second)
		crowd("up", 8*pingEvery, true, 3) // the last one that was too late took half of that time
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "not ready") != 1 || strings.Count(got, "ready again") != 1 {
			t.Errorf("the log is\n%s", got)
		}
		cancel()
		r.close()
	})
}
