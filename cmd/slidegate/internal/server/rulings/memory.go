package rulings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// memory keeps rulings for one process, optionally in a file. It is safe for concurrent use.
type memory struct {
	path string // empty without a file

	mu      sync.Mutex
	version int64
	rulings map[name]Ruling
	log     []Ruling // oldest first
}

// fileContent is the content of the file.
type fileContent struct {
	Version int64    `json:"version"`
	Rulings []Ruling `json:"rulings"`
	Log     []Ruling `json:"log"`
}

// InMemory returns a keeper for a single process, which loses everything when the process ends.
func InMemory() Keeper { return &memory{rulings: map[name]Ruling{}} }

// InFile returns a keeper for a single process, with a file that is written at every change. A file that exists but
// cannot be read is an error: starting without it would admit every blocked client.
func InFile(path string) (Keeper, error) {
	m := &memory{path: path, rulings: map[name]Ruling{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	var content fileContent
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		return nil, fmt.Errorf("rulings: %s: %w; move it away to start without rulings", path, err)
	}
	m.version, m.log = content.Version, content.Log
	for _, r := range content.Rulings {
		m.rulings[name{r.Policy, r.Key}] = r
	}
	return m, nil
}

func (m *memory) Load(_ context.Context, known int64) ([]Ruling, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == known {
		return nil, known, nil
	}
	return m.allLocked(), m.version, nil
}

func (m *memory) Apply(_ context.Context, change Ruling, stale []Ruling) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	target := name{change.Policy, change.Key}
	before, exists := m.rulings[target]
	if change.Kind == Clear && !exists {
		return fmt.Errorf("rulings: %w", ErrNone)
	}
	var removed []Ruling
	for _, r := range stale {
		at := name{r.Policy, r.Key}
		if current, ok := m.rulings[at]; ok && at != target && current.same(&r) {
			removed = append(removed, r)
		}
	}
	if change.Kind != Clear && !exists && len(m.rulings)-len(removed) >= MaxRulings {
		return fmt.Errorf("rulings: %w", ErrFull)
	}
	for _, r := range removed {
		delete(m.rulings, name{r.Policy, r.Key})
	}
	if m.rulings[target] = change; change.Kind == Clear {
		delete(m.rulings, target)
	}
	m.version, m.log = m.version+1, append(m.log, change)
	if err := m.writeLocked(); err != nil { // nothing was changed
		m.version, m.log = m.version-1, m.log[:len(m.log)-1]
		if delete(m.rulings, target); exists {
			removed = append(removed, before)
		}
		for _, r := range removed {
			m.rulings[name{r.Policy, r.Key}] = r
		}
		return fmt.Errorf("rulings: %w", err)
	}
	if len(m.log) >= 2*MaxLog {
		m.log = slices.Clone(m.log[len(m.log)-MaxLog:])
	}
	return nil
}

func (m *memory) Log(_ context.Context, n int) ([]Ruling, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := slices.Clone(m.log[max(0, len(m.log)-min(n, MaxLog)):])
	slices.Reverse(last)
	return last, nil
}

// allLocked returns all rulings, in order.
func (m *memory) allLocked() []Ruling {
	return NewTable(slices.Collect(maps.Values(m.rulings))).filter(func(*Ruling) bool { return true })
}

// writeLocked writes the file, if any. It writes to a temporary file, syncs it and renames it, so that there is always
// a complete file.
func (m *memory) writeLocked() error {
	if m.path == "" {
		return nil
	}
	text, err := json.Marshal(fileContent{Version: m.version, Rulings: m.allLocked(), Log: m.log[max(0, len(m.log)-MaxLog):]})
	if err != nil {
		return err
	}
	folder := filepath.Dir(m.path)
	file, err := os.CreateTemp(folder, filepath.Base(m.path)+".*.new")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // does nothing after the rename
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), m.path)
	}
	if err != nil {
		return err
	}
	at, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer at.Close()
	return at.Sync() // otherwise a power failure could undo the rename
}
