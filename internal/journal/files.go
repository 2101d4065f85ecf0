package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slidegate/slidegate/internal/filelock"
)

// Files is a folder with files, so that a test can put something else in its place. Names have no folder.
type Files interface {
	Lock() (Lock, error) // without waiting
	List() ([]string, error)
	Create(name string) (File, error) // replaces a file of the same name
	Open(name string) (File, error)
	Remove(name string) error
	Sync() error // makes created and removed files durable
}

// Lock is held until it is closed. It has a word about the folder, which outlives it.
type Lock interface {
	Word() string // empty in a new folder
	SetWord(word string) error
	Check() error // returns an error if the folder has another lock now, or none, so that another process may use it
	io.Closer
}

// Words about a folder.
const (
	wordUsed       = "used"                    // it has files
	wordUnrecorded = "not recording"           // and records are not durable
	wordEnded      = "ended without recording" // and were not when the journal was closed

	// The same of a folder that has never had files.
	wordNothing      = "nothing recorded"
	wordEndedNothing = "ended with nothing recorded"
)

// hadFiles reports whether a folder with this word is damaged without files.
func hadFiles(word string) bool { return word != "" && word != wordNothing && word != wordEndedNothing }

// File is a file of Files.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Allocate makes the file that long, with space for all of it. It returns errors.ErrUnsupported if there is no such promise.
	Allocate(size int64) error
	Truncate(size int64) error
	// Map returns the file's bytes as memory, which keeps its contents when the process dies, until they are given to Unmap. It returns
	// errors.ErrUnsupported where writing to such memory may fail.
	Map(size int64) ([]byte, error)
	Sync() error
}

const lockName = "lock"

// folder is the operating system's.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) Lock() (Lock, error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Lock(file); err != nil {
		defer file.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, fmt.Errorf("%s: %s uses this folder; stop it, or choose another folder: %w", string(f), holder(file), err)
		}
		return nil, fmt.Errorf("%s: %w", f.path(lockName), err)
	}
	lock := &lockFile{File: file}
	_, lock.word = readLock(file)
	err = lock.Check() // the file may have been removed before it was locked
	if err == nil {
		err = lock.SetWord(lock.word)
	}
	if err != nil && !IsFull(err) {
		_ = file.Close()
		return nil, err
	}
	return lock, nil
}

// lockFile is a file with the number of the process that has locked it, and the word about the folder, a line each.
type lockFile struct {
	*os.File
	word string
}

func (l *lockFile) Word() string { return l.word }

func (l *lockFile) SetWord(word string) error {
	text := strconv.Itoa(os.Getpid()) + "\n"
	if word != "" {
		text += word + "\n"
	}
	_, err := l.WriteAt([]byte(text), 0)
	if err = errors.Join(err, l.Truncate(int64(len(text))), l.Sync()); err == nil {
		l.word = word
	}
	return err
}

// errLost means that the folder is not the one that was locked.
var errLost = errors.New("the folder was removed, moved or replaced, so nothing is written there any more; put it back, " +
	"or restart this process, which then forgets what it has counted since")

func (l *lockFile) Check() error {
	held, err := l.Stat()
	if err != nil {
		return fmt.Errorf("%w (%w)", errLost, err)
	}
	switch found, err := os.Stat(l.Name()); {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w (%w)", errLost, err)
	case err != nil || !os.SameFile(held, found):
		return errLost
	}
	return nil
}

// readLock returns the lines of a lock's file.
func readLock(file *os.File) (pid, word string) {
	text := make([]byte, 128)
	n, _ := file.ReadAt(text, 0) // io.EOF is expected
	pid, rest, _ := strings.Cut(string(text[:n]), "\n")
	word, _, _ = strings.Cut(rest, "\n")
	return pid, word
}

// wordOf returns the word about a folder, which a process may be using.
func wordOf(dir string) string {
	file, err := os.Open(folder(dir).path(lockName))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	_, word := readLock(file)
	return word
}

// holder describes the process that holds the lock.
func holder(file *os.File) string {
	pid, _ := readLock(file)
	if _, err := strconv.Atoi(pid); err == nil {
		return "process " + pid
	}
	return "another process"
}

// Holder describes the process that uses a folder, as in "process 12". It is empty if none does.
func Holder(dir string) string {
	file, err := os.Open(folder(dir).path(lockName))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if !filelock.Held(file) {
		return ""
	}
	return holder(file)
}

func (f folder) List() ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// isOwn reports whether a file is one of a journal.
func isOwn(name string) bool {
	_, is := parseName(name)
	return is || name == lockName
}

// checkOwner returns an error if the folder has files, and none of a journal. Hidden files, and those of the file system, do not count.
func (f folder) checkOwner() error {
	names, err := f.List()
	if err != nil || slices.ContainsFunc(names, isOwn) {
		return nil // what is wrong with the folder is found when it is locked
	}
	for _, name := range names {
		if name[0] != '.' && name != "lost+found" {
			return fmt.Errorf("%s: it has files of something else, such as %s; give a folder that is empty or does not exist", string(f), name)
		}
	}
	return nil
}

func (f folder) Create(name string) (File, error) {
	return asFile(os.OpenFile(f.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600))
}

func (f folder) Open(name string) (File, error) {
	file, err := os.OpenFile(f.path(name), os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) { // another user's file, or a read-only file system: enough to read it
		file, err = os.Open(f.path(name))
	}
	return asFile(file, err)
}

func (f folder) Remove(name string) error { return os.Remove(f.path(name)) }

func (f folder) Sync() error {
	dir, err := os.Open(string(f))
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !isInvalid(err) {
		return err
	}
	return nil
}

// diskFile is a file of the operating system.
type diskFile struct{ *os.File }

func asFile(file *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return diskFile{file}, nil
}

func (f diskFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
