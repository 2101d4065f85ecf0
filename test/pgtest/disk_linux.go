package pgtest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
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
		testkit.Mounted(t, "", errors.New("this process is not root's"))
	}
	folder, err := os.MkdirTemp(s.node.folder, "disk")
	if err != nil {
		t.Fatal(err)
	}
	how := fmt.Sprintf("size=%dm,mode=0700,uid=%d,gid=%d", megabytes, who.Uid, who.Gid)
	testkit.Mounted(t, folder, syscall.Mount("tmpfs", folder, "tmpfs", 0, how))
	s.Exec("CREATE TABLESPACE small LOCATION '" + folder + "'")
	return "small"
}
