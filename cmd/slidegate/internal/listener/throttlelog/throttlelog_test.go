package throttlelog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newLog() (*Logger, *bytes.Buffer) {
	text := new(bytes.Buffer)
	return New(slog.New(slog.NewTextHandler(text, nil))), text
}

// Concurrent calls write one line per second.
func TestOneLinePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, text := newLog()
		for second := 1; second <= 3; second++ {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() { log.Warn("down", errors.New("refused")) })
			}
			all.Wait()
			if got := strings.Count(text.String(), "\n"); got != second {
				t.Errorf("got %d lines after %d seconds, want one per second:\n%s", got, second, text)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestLine(t *testing.T) {
	log, text := newLog()
	log.Warn("down", errors.New("refused"))
	if got := text.String(); !strings.HasSuffix(got, " level=WARN msg=down error=refused\n") {
		t.Errorf("with an error: got %q", got)
	}
	log, text = newLog()
	log.Warn("not trusted", nil)
	if got := text.String(); !strings.HasSuffix(got, " level=WARN msg=\"not trusted\"\n") {
		t.Errorf("without an error: got %q", got)
	}
}

func TestNilDrops(t *testing.T) {
	New(nil).Warn("down", errors.New("refused"))
	new(Logger).Warn("down", nil)
}
