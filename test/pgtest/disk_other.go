//go:build !linux

package pgtest

import "testing"

// SmallDisk would make a tablespace on a disk of so many megabytes, which takes Linux. Elsewhere it skips the test.
func (s *Server) SmallDisk(t testing.TB, _ int) (tablespace string) {
	t.Helper()
	t.Skip("SKIPPED: a small disk takes Linux, so no disk was full")
	return ""
}
