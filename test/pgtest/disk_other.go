//go:build !linux

package pgtest

import "testing"

// SmallDisk would create a tablespace on a disk of that many megabytes, which needs Linux. Elsewhere it skips the test.
func (s *Server) SmallDisk(t testing.TB, _ int) (tablespace string) {
	t.Helper()
	t.Skip("SKIPPED: a small disk takes Linux, so no disk was full")
	return ""
}
