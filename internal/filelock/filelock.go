// Package filelock locks files for as long as a process lives: the operating system releases a lock when the process ends, however it
// ends.
package filelock

import "errors"

// ErrLocked is returned if another process holds the lock.
var ErrLocked = errors.New("locked by another process")
