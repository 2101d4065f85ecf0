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
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy"
	"github.com/slidegate/slidegate/config"
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
			return s.located(err)
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
	files, err := rulesIn(paths)
	if err != nil {
		all = append(all, invalid("Envoy", "%w", err))
	}
	for _, path := range files {
		domain, err := envoy.Load(path)
		var unreadable *fs.PathError
		if errors.As(err, &unreadable) {
			err = invalid("Envoy", "%w", unreadable)
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		domains = append(domains, domain)
	}
	return domains, errors.Join(all...)
}

// rulesIn returns the files of rules: those that are named, and those of folders that are named: all that end in .yaml or .yml,
// in the order of their names, but for hidden ones, of which Kubernetes makes some.
func rulesIn(paths []string) (files []string, err error) {
	for _, path := range paths {
		entries, notFolder := os.ReadDir(path)
		if notFolder != nil {
			files = append(files, path) // whoever reads it says what is wrong with it
			continue
		}
		before := len(files)
		for _, entry := range entries {
			if name := entry.Name(); !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
				files = append(files, filepath.Join(path, name))
			}
		}
		if len(files) == before {
			err = errors.Join(err, fmt.Errorf("the folder %s has no file that ends in .yaml or .yml", path))
		}
	}
	return files, err
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
			if info, notThere := os.Stat(path); notThere != nil || !info.IsDir() {
				path = filepath.Dir(path)
			}
			err = errors.Join(err, watcher.Add(path))
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

// paths are the files and folders that are watched.
func (s *Server) paths() []string {
	paths := slices.Clone(s.opts.Envoy)
	if s.opts.Path != "" {
		paths = append(paths, s.opts.Path)
	}
	return paths
}

// stamp tells two states of a file apart.
type stamp struct {
	path    string
	changed time.Time
	size    int64
	missing bool
}

func stamps(paths []string) []stamp {
	files, _ := rulesIn(paths) // an empty folder is a state too
	all := make([]stamp, len(files))
	for i, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			all[i] = stamp{path: path, missing: true}
			continue
		}
		all[i] = stamp{path: path, changed: info.ModTime(), size: info.Size()}
	}
	return all
}
