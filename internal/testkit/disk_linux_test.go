package testkit

import (
	"errors"
	"fmt"
	"strings"
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

// Without permission to mount, a test is skipped, but make test, which requires it, fails.
func TestWithoutMount(t *testing.T) {
	for require, want := range map[string]string{"": "skipped: SKIPPED: no disk was full", "cc,mounts": "skipped: ", "cc,mount": "failed: mounting"} {
		t.Setenv("TEST_REQUIRE", require)
		s := &skippingTB{}
		func() {
			defer func() { _ = recover() }()
			Mounted(s, "", errors.New("operation not permitted"))
		}()
		if !strings.HasPrefix(s.ended, want) || !strings.HasSuffix(s.ended, "operation not permitted") {
			t.Errorf("TEST_REQUIRE=%s: the test %s, want %s", require, s.ended, want)
		}
	}
}
