package pgtest

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// SmallDisk creates a disk of that many megabytes in memory, and a tablespace on it, whose name it returns. Set
// default_tablespace to it to create tables there. Only root may do that; otherwise the test is skipped.
func (s *Server) SmallDisk(t testing.TB, megabytes int) (tablespace string) {
	t.Helper()
	s.ownOnly()
	who, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	if who == nil {
		t.Skip("SKIPPED: only root may make a small disk, so no disk was full")
	}
	folder, err := os.MkdirTemp(s.node.folder, "disk")
	if err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("size=%dm,mode=0700,uid=%d,gid=%d", megabytes, who.Uid, who.Gid)
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, how); err != nil {
		t.Skipf("SKIPPED: the system does not let us make a small disk, so no disk was full: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil { // the server still has it open
			t.Errorf("pgtest: the small disk was not removed: %v", err)
		}
	})
	s.Exec("CREATE TABLESPACE small LOCATION '" + folder + "'")
	return "small"
}
