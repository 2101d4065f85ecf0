package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// TestReloadSeveral: all files are watched, those that come into a folder too, and if one is wrong, none is taken.
func TestReloadSeveral(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), "policies: {a: {limits: [1/1h]}}\n")
	s := start(t, plain, func(o *server.Options) {
		o.Paths = append(o.Paths, folder)
		file, err := config.Load(o.Paths...)
		if err != nil {
			t.Fatal(err)
		}
		o.File = file
	})
	for _, policy := range []string{"default", "a"} {
		if got := s.allow(t, policy, "me"); got != http.StatusOK {
			t.Errorf("%s: %d", policy, got)
		}
	}

	b := filepath.Join(folder, "b.yaml")
	write(t, b, "policies: {a: {limits: [9/1h]}}\n")
	testkit.Eventually(t, "a policy that is there twice is noticed", func() bool {
		return s.Log.Has(`b.yaml:1:12: the policy \"a\" is given twice; the first is at ` + folder)
	})
	if got := s.allow(t, "a", "me"); got != http.StatusTooManyRequests {
		t.Errorf("a wrong file changed something: %d", got)
	}

	write(t, b, "policies: {b: {limits: [1/1h]}}\n")
	testkit.Eventually(t, "the new file is in force", func() bool { return s.allow(t, "b", "me") != http.StatusNotFound })
	if got := s.allow(t, "a", "me"); got != http.StatusTooManyRequests {
		t.Errorf("the counts were lost: %d", got)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a file that is gone is noticed", func() bool { return s.allow(t, "b", "me") == http.StatusNotFound })
}
