package testkit

import (
	"fmt"
	"testing"
)

// skippingTB is a test that only records how it ended.
type skippingTB struct {
	testing.TB
	ended string
}

func (s *skippingTB) Helper()                           {}
func (s *skippingTB) Fatalf(format string, args ...any) { s.end("failed: "+format, args...) }
func (s *skippingTB) Skipf(format string, args ...any)  { s.end("skipped: "+format, args...) }
func (s *skippingTB) end(format string, args ...any) {
	s.ended = fmt.Sprintf(format, args...)
	panic(s)
}

// Where something is missing, a test is skipped, but make test, which requires it, fails.
func TestMissing(t *testing.T) {
	for require, want := range map[string]string{"": "skipped: SKIPPED: no disk", "cc,mounts": "skipped: SKIPPED: no disk", "cc,mount": "failed: no disk; TEST_REQUIRE names mount"} {
		t.Setenv("TEST_REQUIRE", require)
		s := &skippingTB{}
		func() {
			defer func() { _ = recover() }()
			Missing(s, "mount", "no disk")
		}()
		if s.ended != want {
			t.Errorf("TEST_REQUIRE=%s: the test %s, want %s", require, s.ended, want)
		}
	}
}
