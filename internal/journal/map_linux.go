//go:build linux && (amd64 || arm64 || loong64 || riscv64)

package journal

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// These file systems keep what fallocate promises: a write to a mapping never finds the disk full. Elsewhere it could, and the process
// would get a fatal signal.
const (
	magicExt   = 0xef53
	magicXFS   = 0x58465342
	magicTmpfs = 0x01021994
)

const madvPopulateWrite = 23 // since Linux 5.14

func (f diskFile) Map(size int64) ([]byte, error) {
	var fs syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &fs); err != nil {
		return nil, err
	}
	if fs.Type != magicExt && fs.Type != magicXFS && fs.Type != magicTmpfs {
		return nil, errors.ErrUnsupported
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// detach puts memory without a file in the place of a mapping, at once. Writers that are still using it do no harm, and the disk space of
// a removed file is free.
func detach(mem []byte) {
	_, _, _ = syscall.Syscall6(syscall.SYS_MMAP, uintptr(unsafe.Pointer(unsafe.SliceData(mem))), uintptr(len(mem)), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_FIXED|syscall.MAP_NORESERVE, ^uintptr(0), 0)
}

func unmap(mem []byte) { _ = syscall.Munmap(mem) }

var pageBytes = uint64(os.Getpagesize())

// populate makes pages present and writable, so that no writer waits for that later. It changes no bytes.
func populate(mem []byte, from, to uint64) {
	from &^= pageBytes - 1
	to = min((to+pageBytes-1)&^(pageBytes-1), uint64(len(mem)))
	if from >= to {
		return
	}
	part := mem[from:to]
	_, _, failed := syscall.Syscall(syscall.SYS_MADVISE, uintptr(unsafe.Pointer(unsafe.SliceData(part))), uintptr(len(part)), madvPopulateWrite)
	if failed != syscall.EINVAL { // an older kernel
		return
	}
	for at := 0; at < len(part); at += int(pageBytes) {
		(*atomic.Uint64)(unsafe.Pointer(&part[at])).Add(0)
	}
}
