package journal

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// failure is why records are not durable. Only a complete checkpoint ends it: it contains what was not recorded.
type failure struct {
	err   error
	now   atomic.Bool // err is not nil, or the journal is closed
	epoch int         // how many failures, and failures of attempts to recover
	count int         // how many times records stopped being durable
	pause time.Duration
	timer *time.Timer // of the next attempt; nil if none is scheduled
}

// failLocked stops recording. The files stay as they are: nothing is written to them again.
func (j *Journal) failLocked(err error) {
	if j.closed && j.failure.err != nil {
		return
	}
	f := &j.failure
	if f.err == nil {
		f.count++
	}
	f.epoch++
	if f.err == nil || !errors.Is(err, f.err) {
		f.err = fmt.Errorf("journal: %s: %w", j.dir, err)
	}
	f.now.Store(true)
	j.current.Store(notRecording)
	for _, s := range j.segments {
		s.durable.Store(false)
	}
	j.writer.dropLocked(j.endLocked())
	j.retryLocked()
	j.changed.Broadcast()
	j.wakeUp() // to keep the word about the folder true
}

// explain replaces the reason by that of the last attempt, which may be another one.
func (f *failure) explain(dir string, err error) {
	if f.err != nil && !errors.Is(f.err, err) {
		f.err = fmt.Errorf("journal: %s: %w", dir, err)
	}
}

// retryLocked schedules the next attempt of a checkpoint: after 1 s, 2 s, 4 s, and so on up to 30 s.
func (j *Journal) retryLocked() {
	f := &j.failure
	if f.timer != nil || j.closed {
		return
	}
	f.pause = min(max(2*f.pause, firstRetry), lastRetry)
	f.timer = time.AfterFunc(f.pause, func() {
		j.mu.Lock()
		f.timer = nil
		j.mu.Unlock()
		j.signalDue()
	})
}

// recoveredLocked says that records are durable again.
func (f *failure) recoveredLocked() {
	f.err = nil
	f.now.Store(false)
	f.stop()
	f.pause = 0
}

func (f *failure) stop() {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

func (j *Journal) signalDue() {
	select {
	case j.due <- struct{}{}:
	default:
	}
}

var errRunning = errors.New("journal: a checkpoint is running already; call Commit or Abandon first")
var errNotRunning = errors.New("journal: no checkpoint is running; call Begin first")
