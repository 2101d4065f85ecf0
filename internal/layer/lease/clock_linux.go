package lease

import (
	"syscall"
	"unsafe"
)

// suspended returns how long the machine has been suspended, in nanoseconds, give or take the time between two calls.
func suspended() int64 {
	const monotonic, boottime = 1, 7
	return systemClock(boottime) - systemClock(monotonic)
}

func systemClock(id uintptr) int64 {
	var t syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&t)), 0); failed != 0 {
		return 0
	}
	return t.Nano()
}
