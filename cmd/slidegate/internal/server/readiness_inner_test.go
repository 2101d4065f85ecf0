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
)

// A store that hangs is asked once for all who want to know, who are answered in time; the log tells of changes alone.
func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var mu sync.Mutex
		var asked int
		state := "up"
		end, cancel := context.WithCancel(t.Context())
		r := &readiness{log: slog.New(slog.NewTextHandler(&log, nil)), end: end, ping: func(ctx context.Context) error {
			mu.Lock()
			asked++
			now := state
			mu.Unlock()
			switch now {
			case "hangs":
				<-ctx.Done()
				return ctx.Err()
			case "deaf": // to its context too
				time.Sleep(3 * time.Second)
				return errors.New("too late")
			}
			return nil
		}}
		crowd := func(next string, ready bool, pings int) {
			t.Helper()
			time.Sleep(2 * pingFresh)
			mu.Lock()
			state, asked = next, 0
			mu.Unlock()
			var all sync.WaitGroup
			began := time.Now()
			for range 50 {
				all.Go(func() {
					if err := r.check(); (err == nil) != ready {
						t.Errorf("%s: %v", next, err)
					}
				})
			}
			all.Wait()
			if took := time.Since(began); took > pingTimeout {
				t.Errorf("%s: an answer took %v", next, took)
			}
			mu.Lock()
			defer mu.Unlock()
			if asked != pings {
				t.Errorf("%s: the store was asked %d times, want %d", next, asked, pings)
			}
		}
		crowd("up", true, 1)
		crowd("hangs", false, 1)
		crowd("hangs", false, 1)
		crowd("deaf", false, 1)
		crowd("deaf", false, 0) // it is still being asked
		time.Sleep(3 * time.Second)
		crowd("up", true, 1)
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "not ready") != 1 || strings.Count(got, "ready again") != 1 {
			t.Errorf("the log is\n%s", got)
		}
		cancel()
		r.close()
	})
}
