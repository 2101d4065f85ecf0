package natsembed

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slidegate/slidegate/internal/filelock"
)

// folder is a server's directory, locked for as long as this process uses it.
type folder struct {
	identity
	lock *os.File
}

// identity is stored in a folder and identifies the server that the folder belongs to.
type identity struct {
	Name    string `json:"name"`
	Cluster bool   `json:"cluster"` // a single server and a member of a cluster cannot use each other's files
}

const (
	identityFile = "slidegate.json"
	lockFile     = "slidegate.lock"
	spaceFile    = "slidegate.space" // exists only while the space is checked
)

// openFolder locks a folder and reads its identity. A new folder is assigned to the server with the given name.
func openFolder(dir, name string, cluster bool) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsembed: dir: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsembed: dir: %w", err)
	}
	f := &folder{lock: lock}
	if err = filelock.Lock(lock); errors.Is(err, filelock.ErrLocked) {
		err = fmt.Errorf("natsembed: dir: %s is in use by another server; give each server its own folder", dir)
	}
	if err == nil {
		f.identity, err = identify(dir, name, cluster)
	}
	if err != nil {
		f.release()
		return nil, err
	}
	return f, nil
}

// release unlocks the folder. The lock file stays, for the next server to lock.
func (f *folder) release() { _ = f.lock.Close() }

// identify returns the identity stored in a folder, and writes one if there is none.
func identify(dir, name string, cluster bool) (identity, error) {
	file := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return assign(dir, name, cluster)
	}
	var known identity
	if err == nil {
		err = json.Unmarshal(text, &known)
	}
	switch {
	case err != nil:
		return known, fmt.Errorf("natsembed: dir: %s: %w; restore the file, or use an empty folder", file, err)
	case name != "" && name != known.Name:
		return known, fmt.Errorf("natsembed: name: %s belongs to the server %q, not %q; use that name, or an empty folder", dir, known.Name, name)
	case known.Cluster && !cluster:
		return known, fmt.Errorf("natsembed: cluster: %s belongs to a member of a cluster; set route and cluster, or use an empty folder", dir)
	case cluster && !known.Cluster:
		return known, fmt.Errorf("natsembed: cluster: %s belongs to a single server, which cannot join a cluster; use an empty folder", dir)
	}
	return known, nil
}

// assign stores the identity of a new server in a folder.
func assign(dir, name string, cluster bool) (identity, error) {
	if name == "" {
		name = "slidegate-" + strings.ToLower(rand.Text()[:12])
	}
	own := identity{Name: name, Cluster: cluster}
	text, err := json.Marshal(own)
	if err == nil {
		err = writeAtomically(filepath.Join(dir, identityFile), append(text, '\n'))
	}
	if err != nil {
		return own, fmt.Errorf("natsembed: dir: %w", err)
	}
	return own, nil
}

// writeAtomically writes a file so that after a crash it is either complete or missing.
func writeAtomically(name string, text []byte) error {
	temporary := name + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}
