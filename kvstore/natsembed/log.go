package natsembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// log is the logger of a NATS server. It keeps the server's first fatal error for Start, and the first error after which the server
// no longer writes to its folder for keepWritable.
type log struct {
	to      *slog.Logger
	cluster bool
	fatal   chan error
	broken  chan error
	quiet   atomic.Bool // once broken has an error, or the server is being tried
}

func newLog(to *slog.Logger, cluster bool) *log {
	return &log{to: to, cluster: cluster, fatal: make(chan error, 1), broken: make(chan error, 1)}
}

func (l *log) write(level slog.Level, format string, v []any) {
	if l.quiet.Load() {
		level = slog.LevelDebug // the server repeats itself, and keepWritable logs what matters
	}
	if ctx := context.Background(); l.to.Enabled(ctx, level) {
		l.to.Log(ctx, level, "nats: "+fmt.Sprintf(format, v...))
	}
}

// Noticef logs a notice, at debug level.
func (l *log) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Warnf logs a warning, except for the one that the unusable client port causes in a cluster.
func (l *log) Warnf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !l.cluster || !strings.Contains(text, "failed to be ready for connections") {
		l.noteBroken(format, v)
		l.write(slog.LevelWarn, "%s", []any{text})
	}
}

// Errorf logs an error.
func (l *log) Errorf(format string, v ...any) {
	l.noteBroken(format, v)
	l.write(slog.LevelError, format, v)
}

// stopsWriting are what messages contain after which NATS does not write until it is restarted, or, if the disk was full when a
// bucket was to be created, leaks a file with every attempt. There is no other sign: its own check of health needs a port for clients.
var stopsWriting = []string{"critical write error", "will be disabled", "disabling jetstream", "no space left", "quota exceeded"}

// noteBroken passes such a message on to keepWritable.
func (l *log) noteBroken(format string, v []any) {
	text := fmt.Sprintf(format, v...)
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(stopsWriting, func(part string) bool { return strings.Contains(lower, part) }) {
		return
	}
	l.quiet.Store(true)
	select {
	case l.broken <- errors.New(text):
	default:
	}
}

// Fatalf logs an error after which the server cannot continue. The program continues, and Start returns the error.
func (l *log) Fatalf(format string, v ...any) {
	if l.cluster && strings.HasPrefix(format, "Error listening on port") { // the unusable client port
		return
	}
	l.write(slog.LevelError, format, v)
	select {
	case l.fatal <- cause(format, v):
	default:
	}
}

// cause returns the error of a fatal message.
func cause(format string, v []any) error {
	for _, arg := range v {
		if err, ok := arg.(error); ok && strings.HasPrefix(format, "Error listening on router port") {
			return fmt.Errorf("route: %w; choose an unused address of this machine", err)
		}
	}
	return fmt.Errorf(format, v...)
}

// Debugf is never called.
func (l *log) Debugf(string, ...any) {}

// Tracef is never called.
func (l *log) Tracef(string, ...any) {}
