package testkit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slidegate/slidegate/internal/testkit"
)

// failures records what a test would have failed with.
type failures struct {
	testing.TB
	all []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.all = append(f.all, fmt.Sprintf(format, args...))
}

// What was promised and is gone, and what is new, fails a test. Only what is new can be added.
func TestReleased(t *testing.T) {
	file := filepath.Join(t.TempDir(), "promised.txt")
	check := func(now ...string) int {
		f := &failures{TB: t}
		testkit.Released(f, file, now)
		return len(f.all)
	}
	t.Setenv("TEST_RELEASED", "add")
	if n := check("b", "c"); n != 0 {
		t.Fatalf("got %d failures when the file was written, want none", n)
	}
	for _, c := range []struct {
		add   string
		now   []string
		fails int
	}{
		{"", []string{"b", "c"}, 0},
		{"", []string{"c"}, 1},
		{"add", []string{"c"}, 1},
		{"", []string{"a", "b", "c"}, 1},
		{"", []string{"a", "b"}, 2},
		{"", nil, 3},
		{"add", []string{"a", "b"}, 1}, // a is added, c stays
		{"", []string{"a", "b", "c"}, 0},
	} {
		t.Setenv("TEST_RELEASED", c.add)
		if n := check(c.now...); n != c.fails {
			t.Errorf("%q with TEST_RELEASED=%s: got %d failures, want %d", c.now, c.add, n, c.fails)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !slices.Equal(text, []byte("a\nb\nc\n")) {
		t.Errorf("got the file %q, %v, want a, b and c", text, err)
	}
}
