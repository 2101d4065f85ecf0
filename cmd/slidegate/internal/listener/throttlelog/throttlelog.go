// Package throttlelog logs events that occur on every request of an outage, at most once per second.
package throttlelog

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Logger writes at most one line per second; the others are dropped. The zero value drops every line; call New for one
// that writes. It is safe for concurrent use, and must not be copied.
type Logger struct {
	to   *slog.Logger
	last atomic.Int64 // the Unix second of the last line
}

// New returns a Logger that writes to the given logger; nil drops every line.
func New(to *slog.Logger) *Logger { return &Logger{to: to} }

// Warn writes a line, with err if it is not nil, unless a line was written in this second already.
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
