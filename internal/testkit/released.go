package testkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Adds reports whether tests add to the files that record what was released. They never change or remove what is there.
func Adds() bool { return os.Getenv("TEST_RELEASED") == "add" }

// AddHint says how to make Adds return true.
const AddHint = "TEST_RELEASED=add go test adds it"

// Released compares the lines of a file, which a release has promised, with those that are true of this version. A line that is no longer
// true fails the test, since users rely on it; docs/versions.md says for how long. A line that is not in the file fails it too, until it is
// added, so that everything that is released was seen in a review. Lines that are empty or begin with # are comments.
func Released(t testing.TB, file string, now []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !(Adds() && errors.Is(err, fs.ErrNotExist)) {
		t.Fatal(err)
	}
	var comments, promised []string
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" || line[0] == '#':
			comments = append(comments, line)
		default:
			promised = append(promised, line)
		}
	}
	missing, added := differences(promised, now)
	for _, line := range missing {
		t.Errorf("%s: a release has promised %q, and it is no longer so; keep it, beside what replaces it (docs/versions.md)", file, line)
	}
	switch {
	case len(now) == 0:
		t.Errorf("%s: found nothing; the test does not look right", file)
	case len(added) > 0 && Adds():
		all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(promised, added))))
		write(t, file, strings.Join(append(comments, all...), "\n")+"\n")
	default:
		for _, line := range added {
			t.Errorf("%s: %q is new, and will be promised from the next release on; %s", file, line, AddHint)
		}
	}
}

// differences returns the lines that are only in one of two lists.
func differences(promised, now []string) (missing, added []string) {
	only := func(in, notIn []string) []string {
		return slices.DeleteFunc(slices.Clone(in), func(line string) bool { return slices.Contains(notIn, line) })
	}
	return only(promised, now), only(now, promised)
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
