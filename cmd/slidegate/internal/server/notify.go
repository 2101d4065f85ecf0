package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/systemd"
)

// notify reports the server's status to systemd, if systemd started this process.
func (s *Server) notify(lines ...string) {
	if err := systemd.Notify(lines...); err != nil {
		s.log.Warn("systemd was not notified", slog.Any("error", err))
	}
}

// startWatchdog sends watchdog messages to systemd, as often as systemd expects them, until stop is called.
func (s *Server) startWatchdog() (stop func()) {
	every := systemd.WatchdogEvery()
	if every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			s.notify(systemd.Alive)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
