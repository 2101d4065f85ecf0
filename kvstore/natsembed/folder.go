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
)

// folder is where a server keeps everything, locked for as long as this process uses it.
type folder struct {
	identity
	lock *os.File
}

// identity is what a folder remembers of the server that it belongs to.
type identity struct {
	Name    string `json:"name"`
	Cluster bool   `json:"cluster"` // the files of a server alone and of one of a cluster are not the same
}

const (
	identityFile = "slidegate.json"
	lockFile     = "slidegate.lock"
)

// errLocked is returned where somebody else has a lock.
var errLocked = errors.New("locked")

// openFolder locks a folder and finds out whose it is. One that is new becomes that of the server with the given name.
func openFolder(dir, name string, cluster bool) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("natsembed: dir: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("natsembed: dir: %w", err)
	}
	f := &folder{lock: lock}
	if err = flock(lock); errors.Is(err, errLocked) {
		err = fmt.Errorf("natsembed: dir: %s is in use by another server; give each a folder of its own", dir)
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

// release lets go of the folder. The lock's file stays: the next one locks it again.
func (f *folder) release() { _ = f.lock.Close() }

// identify returns the identity in a folder, and writes it if there is none.
func identify(dir, name string, cluster bool) (identity, error) {
	file := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return found(dir, name, cluster)
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
		return known, fmt.Errorf("natsembed: peers: %s belongs to a server of a cluster; set route and peers, or use an empty folder", dir)
	case cluster && !known.Cluster:
		return known, fmt.Errorf("natsembed: peers: %s belongs to a single server, which cannot become one of a cluster; use an empty folder", dir)
	}
	return known, nil
}

// found makes a folder that of a new server.
func found(dir, name string, cluster bool) (identity, error) {
	if name == "" {
		name = "slidegate-" + strings.ToLower(rand.Text()[:12])
	}
	own := identity{Name: name, Cluster: cluster}
	text, err := json.Marshal(own)
	if err == nil {
		err = writeWhole(filepath.Join(dir, identityFile), append(text, '\n'))
	}
	if err != nil {
		return own, fmt.Errorf("natsembed: dir: %w", err)
	}
	return own, nil
}

// writeWhole writes a file so that after a crash there is all of it or none.
func writeWhole(name string, text []byte) error {
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
