// Package throttlelog logs what happens at every request of an outage, once a second at most.
package throttlelog

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Logger writes at most one line per second; the others are dropped. The zero value drops every line; New returns one that
// writes. It is safe for concurrent use, and must not be copied.
type Logger struct {
	to   *slog.Logger
	last atomic.Int64 // the Unix second of the last line
}

// New returns a Logger that writes to a logger; nil drops every line.
func New(to *slog.Logger) *Logger { return &Logger{to: to} }

// Warn writes a line, with an error if it is not nil, unless this second has one already.
func (l *Logger) Warn(text string, err error) {
	if l.to == nil {
		return
	}
	now := time.Now().Unix()
	if last := l.last.Load(); now == last || !l.last.CompareAndSwap(last, now) {
		return
	}
	if err != nil {
		l.to.Warn(text, slog.Any("error", err))
	} else {
		l.to.Warn(text)
	}
}
