package server

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// fileLock reserves a state file for one process for as long as the process lives: the operating system releases the lock when
// the process ends, however it ends.
type fileLock struct{ file *os.File }

// errLocked is returned if another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockState locks the state at path. The lock is a separate file next to it, since the state file itself is replaced at every
// save.
func lockState(path string) (*fileLock, error) {
	name := path + ".lock"
	for {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, invalid("State", "%w", err)
		}
		if err := flock(file); err != nil {
			defer file.Close()
			if errors.Is(err, errLocked) {
				return nil, invalid("State", "%s is in use by %s; give each process its own file, or share the counts through Redis or PostgreSQL",
					path, holder(file))
			}
			return nil, invalid("State", "%s: %w", name, err)
		}
		if !isSameFile(file, name) { // the previous holder has removed it in the meantime
			file.Close()
			continue
		}
		if err := writeHolder(file); err != nil {
			return nil, err
		}
		return &fileLock{file}, nil
	}
}

// isSameFile reports whether an open file is still the one with this name.
func isSameFile(file *os.File, name string) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(name)
	return err == nil && os.SameFile(own, current)
}

// writeHolder writes the holder of the lock into its file.
func writeHolder(file *os.File) error {
	err := file.Truncate(0)
	if err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		file.Close()
		return invalid("State", "%w", err)
	}
	return nil
}

// holder describes the process that holds the lock.
func holder(file *os.File) string {
	text := make([]byte, 32)
	n, _ := file.ReadAt(text, 0) // io.EOF is expected
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		return "process " + strconv.Itoa(pid)
	}
	return "another process"
}

// release removes the lock's file while no other process can hold it, and releases the lock.
func (l *fileLock) release() {
	if l == nil {
		return
	}
	_ = os.Remove(l.file.Name()) // a leftover file is harmless
	_ = l.file.Close()
}
