package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// SmallDisk returns the folder of a new file system in memory of a size such as "8m", for a test that fills a disk.
func SmallDisk(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	Mounted(t, dir, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	return dir
}

// SmallExt4 is SmallDisk with a real file system, in a file.
func SmallExt4(t testing.TB, megabytes int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	image := filepath.Join(t.TempDir(), "image")
	Must(0, os.WriteFile(image, make([]byte, megabytes<<20), 0o600))(t)
	out, err := exec.Command("sh", "-c", `mkfs.ext4 -q "$0" && mount -o loop "$0" "$1"`, image, dir).CombinedOutput()
	if err != nil {
		err = errors.New(string(out))
	}
	Mounted(t, dir, err)
	return dir
}

// Mounted unmounts a folder at the end of the test. If mounting failed, it skips the test, unless TEST_REQUIRE names mount: then the
// test fails.
func Mounted(t testing.TB, dir string, err error) {
	t.Helper()
	if err != nil {
		Missing(t, "mount", fmt.Sprintf("no disk was full, because mounting a small one needs root and CAP_SYS_ADMIN: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil { // a process may still have a file open
			t.Errorf("unmounting the small disk: %v", err)
		}
	})
}
