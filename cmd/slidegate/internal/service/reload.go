package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/systemd"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// A changed file is read once nothing has happened in its folder for quietPeriod, since editors write files in several steps, and
// after maxDelay at the latest, since some folders are never quiet.
const (
	quietPeriod = 100 * time.Millisecond
	maxDelay    = time.Second
)

// Reload reads the files again. On an error, nothing changes.
func (s *Server) Reload() error {
	_, err := s.ReloadChanges()
	return err
}

// ReloadChanges is like Reload, and also returns what changed.
func (s *Server) ReloadChanges() (changes Changes, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.notify(systemd.Reloading())
	s.failures.begin(stamps(s.paths()))
	err = s.reload(&changes)
	if err != nil {
		s.failures.log(s.log, "files not reloaded; the previous configuration stays in force", err)
	}
	if err = errors.Join(err, s.reloadSecrets(&changes)); err == nil {
		s.failures = reloadFailures{}
	}
	s.reloads.record(changes.any(), err)
	status := ""
	if err != nil {
		status = "a file was not reloaded: " + err.Error()
	}
	s.notify(systemd.Ready, systemd.Status(status))
	return changes, err
}

// reloadSecrets reads the tokens and the certificates again. Each of them is kept if its new content is invalid, independently of the
// others: a revoked token must not stay valid because of a mistake in the policies.
func (s *Server) reloadSecrets(changes *Changes) error {
	var errs []error
	for _, set := range []struct {
		tokens *tokens
		name   string
	}{{s.tokens, "tokens"}, {s.admins, "admin tokens"}} {
		changed, err := set.tokens.reload()
		switch {
		case err != nil:
			errs = append(errs, err)
			s.failures.log(s.log, set.name+" not reloaded; the previous ones stay valid", err)
		case changed:
			changes.Tokens = true
			s.log.Info(set.name+" reloaded", slog.Int("tokens", len(set.tokens.current.Load().texts)))
		}
	}
	if changes.Tokens && s.resp != nil {
		s.resp.SetTokens(s.tokens.texts(), s.admins.texts())
	}
	var err error
	changes.Certificates, err = s.certificates.reload()
	switch {
	case err != nil:
		s.failures.log(s.log, "certificates not reloaded; the old ones stay in use", err)
	case changes.Certificates:
		s.log.Info("certificates reloaded", slog.Time("expires", s.certificates.expires()))
	}
	return errors.Join(append(errs, err)...)
}

// reloadFailures remembers which failures were logged, so that each is logged once although a change of a file and a signal, or several
// signals, reload it.
type reloadFailures struct {
	files []stamp
	texts map[string]bool
}

// begin begins a reload. Failures of other files are new ones.
func (f *reloadFailures) begin(files []stamp) {
	if !slices.Equal(f.files, files) || f.texts == nil {
		*f = reloadFailures{files, map[string]bool{}}
	}
}

func (f *reloadFailures) log(log *slog.Logger, what string, err error) {
	if text := what + err.Error(); !f.texts[text] {
		f.texts[text] = true
		log.Error(what, slog.Any("error", err))
	}
}

// reload reads all policies and rules before it changes anything. It records what changed.
func (s *Server) reload(changes *Changes) error {
	rules := ruleTexts(s.opts.Envoy) // before reading them: a file that changes in between is read again
	var file *config.File
	restart := s.restart
	if len(s.opts.Paths) > 0 {
		read, err := config.Load(config.Options{}, s.opts.Paths...)
		if err != nil {
			return err
		}
		file, restart = s.inForce(read)
	}
	local, err := LoadDomains(s.opts.Envoy, s.opts.File.Envoy.Files...)
	if err != nil {
		return err
	}
	if file != nil {
		if err := s.gate.Reload(file); err != nil {
			return file.Locate(err)
		}
	}
	if s.envoy != nil {
		before := s.envoy.Domains()
		if err := s.envoy.Reload(slices.Concat(local, s.remote)); err != nil {
			if file != nil {
				err = errors.Join(err, s.gate.Reload(s.file)) // all or nothing
			}
			return err
		}
		changes.Envoy = !envoy.Equal(before, s.envoy.Domains())
	}
	s.local = local
	if !slices.Equal(restart, s.restart) && len(restart) > 0 {
		s.log.Warn("the file has settings that are not reloaded; restart to change them", slog.Any("fields", restartFields(restart)))
	}
	s.restart = restart
	s.restartNeeded.Store(len(restart) > 0)
	if file != nil {
		changes.compare(s.file, file)
		if !reflect.DeepEqual([]any{s.file.Policies, s.file.Service, s.file.Envoy}, []any{file.Policies, file.Service, file.Envoy}) {
			s.logFile(file)
			s.loaded = time.Now()
		}
		s.file = file
		s.others.Store(&file.Others)
		s.setModes(file)
	}
	hash := hashConfig(s.file, rules)
	s.hash.Store(&hash)
	return nil
}

// watch reloads when a file changes, until ctx ends. It watches the folders, since files are often replaced rather than written:
// by editors, and by Kubernetes, which swaps a symbolic link.
func (s *Server) watch(ctx context.Context) {
	if len(s.paths()) == 0 {
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		err = addFolders(watcher, s.paths())
	}
	if err != nil {
		s.log.Warn("files are not watched; send SIGHUP to reload them", slog.Any("error", err))
		return
	}
	seen := s.began
	changed := time.NewTimer(quietPeriod)
	changed.Stop()
	var first time.Time // time of the first event since the last look at the files; zero if there was none
	wait := func() {
		if first.IsZero() {
			first = time.Now()
		}
		changed.Reset(max(0, min(quietPeriod, maxDelay-time.Since(first))))
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
			wait() // events may have been lost
		case <-changed.C:
			first = time.Time{}
			if now := stamps(s.paths()); !slices.Equal(now, seen) {
				seen = now
				_ = s.Reload()                     // logs its errors
				_ = addFolders(watcher, s.paths()) // the files may name others now; one that cannot be watched is read with the next change
			}
		}
	}
}

// addFolders watches the folders of files, and folders themselves.
func addFolders(watcher *fsnotify.Watcher, paths []string) (err error) {
	for _, path := range paths {
		if info, statErr := os.Stat(path); statErr != nil || !info.IsDir() {
			path = filepath.Dir(path)
		}
		err = errors.Join(err, watcher.Add(path))
	}
	return err
}

// paths returns the files and folders to watch, including those that the policy files name.
func (s *Server) paths() []string {
	paths := slices.Concat(s.opts.Paths, s.opts.Envoy, s.opts.TLS.paths())
	for _, path := range []string{s.opts.TokensFile, s.opts.AdminTokensFile} {
		if path != "" {
			paths = append(paths, path)
		}
	}
	if others := s.others.Load(); others != nil {
		paths = append(paths, *others...)
	}
	return paths
}

// stamp identifies a state of a file.
type stamp struct {
	path    string
	changed time.Time
	size    int64
	missing bool
}

func stamps(paths []string) []stamp {
	files, _ := yamlfile.Files(paths...) // an empty folder has no stamps, which is not an error here
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

// hashConfig returns a short hash of the configuration in force: of the policies and settings, and of the texts of rules for Envoy. It is
// the same on all instances that decide alike, however their files are written. It does not cover tokens, certificates and secrets.
func hashConfig(file *config.File, rules []byte) string {
	sum := sha256.New()
	sum.Write(config.Format(file))
	sum.Write(rules)
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// ruleTexts returns the contents of the files of rules.
func ruleTexts(paths []string) (all []byte) {
	files, _ := yamlfile.Files(paths...)
	for _, path := range files {
		text, _ := os.ReadFile(path) // errors are reported by loading it
		all = append(fmt.Appendln(all, len(text)), text...)
	}
	return all
}
