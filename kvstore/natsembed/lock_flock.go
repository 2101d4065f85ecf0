//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package natsembed

import (
	"errors"
	"os"
	"syscall"
)

// flock locks a file without waiting; the system unlocks it when the process ends, however it ends. On a file system without locks
// it does nothing.
func flock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		case errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS):
			return nil
		}
		return err
	}
}
