package server

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// fileLock keeps a file of state for one process, as long as that lives: the system lets go of it when the process ends,
// however it ends.
type fileLock struct{ file *os.File }

// errLocked is returned where another process has the lock.
var errLocked = errors.New("locked by another process")

// lockState takes the lock of the state at path, which is a file beside it: the state itself is replaced at every save.
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
				return nil, invalid("State", "%s is in use by %s; give each process a file of its own, or share the counts by Redis or PostgreSQL",
					path, holder(file))
			}
			return nil, invalid("State", "%s: %w", name, err)
		}
		if !isAt(file, name) { // whoever had it before has removed it meanwhile
			file.Close()
			continue
		}
		if err := note(file); err != nil {
			return nil, err
		}
		return &fileLock{file}, nil
	}
}

// isAt reports whether a file that is open is the one that has its name now.
func isAt(file *os.File, name string) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(name)
	return err == nil && os.SameFile(own, there)
}

// note writes down who has the lock.
func note(file *os.File) error {
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

// holder says who has the lock.
func holder(file *os.File) string {
	text := make([]byte, 32)
	n, _ := file.ReadAt(text, 0) // it ends before
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n]))); err == nil {
		return "process " + strconv.Itoa(pid)
	}
	return "another process"
}

// release lets go of the lock, and removes its file while nobody else can have it.
func (l *fileLock) release() {
	if l == nil {
		return
	}
	_ = os.Remove(l.file.Name()) // it does no harm where it is
	_ = l.file.Close()
}
