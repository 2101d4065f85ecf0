//go:build !no_nats_server

package stores

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// sparse is a log of a NATS server of which at most one line of a kind is written in a while: a server that misses others of its
// cluster says so several times a second. Its levels are lowered by one step. What it calls an error is a warning here, since what
// becomes of the service is logged elsewhere, and what it calls a warning is told of every ordinary recovery.
type sparse struct {
	slog.Handler
	seen *seenLines
}

// seenLines is when lines of a kind were last written.
type seenLines struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	sparseEvery = 30 * time.Second
	sparseKinds = 64 // of which that is remembered
)

func newSparse(to slog.Handler) sparse {
	return sparse{to, &seenLines{last: map[string]time.Time{}}}
}

// Handle writes a line, unless there was one of its kind lately.
func (s sparse) Handle(ctx context.Context, r slog.Record) error {
	r.Level -= slog.LevelError - slog.LevelWarn
	if !s.Enabled(ctx, r.Level) || s.seen.again(kindOf(r.Message), r.Time) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs returns a log with attributes, which counts lines together with this one.
func (s sparse) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparse{s.Handler.WithAttrs(attrs), s.seen}
}

// WithGroup returns a log with a group, which counts lines together with this one.
func (s sparse) WithGroup(name string) slog.Handler {
	return sparse{s.Handler.WithGroup(name), s.seen}
}

// kindOf returns what lines of one kind begin with: the text before the first number, which says of which server or attempt it is.
func kindOf(message string) string {
	if i := strings.IndexAny(message, "0123456789"); i >= 0 {
		return message[:i]
	}
	return message
}

// again reports whether a line of the kind was written lately, and takes note that there is one now if not.
func (l *seenLines) again(kind string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, seen := l.last[kind]; seen && now.Sub(last) < sparseEvery {
		return true
	}
	if len(l.last) >= sparseKinds {
		clear(l.last)
	}
	l.last[kind] = now
	return false
}
