package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/server/envoy"
)

// A changed file is left alone until nothing has happened in its folder for as long as settle, since editors write it in
// several steps; but no longer than patience, since in some folders something always happens.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
)

// Reload reads the files again. On an error, everything stays as it was.
func (s *Server) Reload() error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	err := s.reload()
	result := "ok"
	if err != nil {
		result = "failed"
		s.log.Error("files not reloaded; what was in force stays in force", slog.Any("error", err))
	}
	s.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("slidegate.result", result)))
	return err
}

// reload reads everything before it changes anything.
func (s *Server) reload() error {
	var file *config.File
	if s.opts.Path != "" {
		read, err := config.Load(s.opts.Path)
		if err != nil {
			return err
		}
		file = read
	}
	domains, err := loadDomains(s.opts.Envoy)
	if err != nil {
		return err
	}
	if file != nil {
		if err := s.gate.Reload(file); err != nil {
			return err
		}
		s.forward.Trust(file.Service.TrustedProxies)
	}
	if s.envoy != nil {
		if err := s.envoy.Reload(domains); err != nil {
			if file != nil {
				err = errors.Join(err, s.gate.Reload(s.file)) // all or nothing
			}
			return err
		}
	}
	if file != nil {
		s.file = file
	}
	return nil
}

// loadDomains reads files in the format of envoyproxy/ratelimit.
func loadDomains(paths []string) ([]*envoy.Domain, error) {
	var domains []*envoy.Domain
	var all []error
	for _, path := range paths {
		domain, err := envoy.Load(path)
		if errors.As(err, new(*fs.PathError)) {
			err = fmt.Errorf("server: %w", err)
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		domains = append(domains, domain)
	}
	return domains, errors.Join(all...)
}

// watch reloads when a file changes, until ctx ends. It watches the folders, for a file is often replaced and not written:
// by editors, and by Kubernetes, which swaps a link.
func (s *Server) watch(ctx context.Context) {
	paths := s.paths()
	if len(paths) == 0 {
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		for _, path := range paths {
			err = errors.Join(err, watcher.Add(filepath.Dir(path)))
		}
	}
	if err != nil {
		s.log.Warn("files are not watched; send SIGHUP to reload them", slog.Any("error", err))
		return
	}
	seen := s.began
	changed := time.NewTimer(settle)
	changed.Stop()
	var first time.Time // of the events since the files were last looked at; zero if there was none
	wait := func() {
		if first.IsZero() {
			first = time.Now()
		}
		changed.Reset(max(0, min(settle, patience-time.Since(first))))
	}
	wait() // a file may have changed between New and now
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-watcher.Events:
			if !ok {
				return
			}
			wait()
		case err := <-watcher.Errors:
			s.log.Warn("watching files", slog.Any("error", err))
			wait() // something may have been missed
		case <-changed.C:
			first = time.Time{}
			if now := stamps(paths); !slices.Equal(now, seen) {
				seen = now
				_ = s.Reload() // it logs what is wrong
			}
		}
	}
}

// paths are the files that are watched.
func (s *Server) paths() []string {
	paths := slices.Clone(s.opts.Envoy)
	if s.opts.Path != "" {
		paths = append(paths, s.opts.Path)
	}
	return paths
}

// stamp tells two states of a file apart.
type stamp struct {
	changed time.Time
	size    int64
	missing bool
}

func stamps(paths []string) []stamp {
	all := make([]stamp, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			all[i] = stamp{missing: true}
			continue
		}
		all[i] = stamp{changed: info.ModTime(), size: info.Size()}
	}
	return all
}
