//go:build !linux

package journal

import "errors"

// Allocate promises nothing on systems other than Linux.
func (f diskFile) Allocate(int64) error { return errors.ErrUnsupported }

func isInvalid(error) bool { return false }

// IsFull reports false: an attempt to go on in memory is made on Linux only.
func IsFull(error) bool { return false }
