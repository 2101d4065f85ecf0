package natsembed

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// sparseHandler is a log handler for a NATS server that limits how often lines of a kind are written: a server that cannot reach the rest
// of its cluster logs that several times a second. It lowers levels by one step. Errors of NATS become warnings, since their effect
// on the service is logged elsewhere, and its warnings become information, since every ordinary recovery causes some.
type sparseHandler struct {
	slog.Handler
	seen *seenLines
}

// seenLines records when lines of each kind were last written.
type seenLines struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const (
	sparseEvery = 30 * time.Second
	sparseKinds = 64 // maximum number of kinds remembered
)

func newSparseHandler(to slog.Handler) sparseHandler {
	return sparseHandler{to, &seenLines{last: map[string]time.Time{}}}
}

// Handle writes a line, unless one of the same kind was written recently.
func (s sparseHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level -= slog.LevelError - slog.LevelWarn
	if !s.Enabled(ctx, r.Level) || s.seen.seenRecently(kindOf(r.Message), r.Time) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with attributes, which shares its record of lines with this one.
func (s sparseHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sparseHandler{s.Handler.WithAttrs(attrs), s.seen}
}

// WithGroup returns a handler with a group, which shares its record of lines with this one.
func (s sparseHandler) WithGroup(name string) slog.Handler {
	return sparseHandler{s.Handler.WithGroup(name), s.seen}
}

// kindOf returns the kind of a line: the text before the first number, which usually identifies a server or an attempt.
func kindOf(message string) string {
	if i := strings.IndexAny(message, "0123456789"); i >= 0 {
		return message[:i]
	}
	return message
}

// seenRecently reports whether a line of this kind was written recently. If not, it records that one is written now.
func (l *seenLines) seenRecently(kind string, now time.Time) bool {
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
