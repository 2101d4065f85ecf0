package natsembed

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// log takes what a server logs, and keeps what it gives up for.
type log struct {
	to      *slog.Logger
	cluster bool
	fatal   chan error
}

func newLog(to *slog.Logger, cluster bool) *log {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return &log{to: to, cluster: cluster, fatal: make(chan error, 1)}
}

func (l *log) write(level slog.Level, format string, v []any) {
	if ctx := context.Background(); l.to.Enabled(ctx, level) {
		l.to.Log(ctx, level, "nats: "+fmt.Sprintf(format, v...))
	}
}

// Noticef is for what goes as expected.
func (l *log) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }

// Warnf is for warnings.
func (l *log) Warnf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); !l.cluster || !strings.Contains(text, "failed to be ready for connections") { // of clients, as intended
		l.write(slog.LevelWarn, "%s", []any{text})
	}
}

// Errorf is for errors.
func (l *log) Errorf(format string, v ...any) { l.write(slog.LevelError, format, v) }

// Fatalf is for what a server cannot go on after. The program goes on; Start returns the error.
func (l *log) Fatalf(format string, v ...any) {
	if l.cluster && strings.HasPrefix(format, "Error listening on port") { // the one that clients do not get
		return
	}
	l.write(slog.LevelError, format, v)
	select {
	case l.fatal <- cause(format, v):
	default:
	}
}

// cause returns why a server has given up.
func cause(format string, v []any) error {
	for _, arg := range v {
		if err, ok := arg.(error); ok && strings.HasPrefix(format, "Error listening on router port") {
			return fmt.Errorf("route: %w; choose an address of this machine that nobody else listens on", err)
		}
	}
	return fmt.Errorf(format, v...)
}

// Debugf is never called.
func (l *log) Debugf(string, ...any) {}

// Tracef is never called.
func (l *log) Tracef(string, ...any) {}
