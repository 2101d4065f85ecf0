package journal

import (
	"errors"
	"syscall"
)

// Allocate repeats a call that a signal has interrupted: the runtime sends itself signals all the time.
func (f diskFile) Allocate(size int64) error {
	for range 1000 {
		err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
		switch err {
		case nil:
			return nil
		case syscall.EINTR:
			continue
		case syscall.EOPNOTSUPP, syscall.ENOSYS:
			return errors.ErrUnsupported
		}
		return err
	}
	return syscall.EINTR
}

// Sync writes the contents, and what is needed to read them again, which a full sync exceeds by a write of the file's times.
func (f diskFile) Sync() error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

func isInvalid(err error) bool { return errors.Is(err, syscall.EINVAL) }

// IsFull reports whether there is no space, so that a later attempt may succeed.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
