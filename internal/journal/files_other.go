//go:build !linux

package journal

import "errors"

// Allocate promises nothing on systems other than Linux.
func (f diskFile) Allocate(int64) error { return errors.ErrUnsupported }

func isInvalid(error) bool { return false }

func isFull(error) bool { return false }
