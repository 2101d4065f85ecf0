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

// TestReloadOfSeveralFilesIsAllOrNothing: all files are watched, including new ones in a folder, and if one is invalid, none is loaded.
func TestReloadOfSeveralFilesIsAllOrNothing(t *testing.T) {
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
			t.Errorf("%s: got %d", policy, got)
		}
	}

	b := filepath.Join(folder, "b.yaml")
	write(t, b, "policies: {a: {limits: [9/1h]}}\n")
	testkit.Eventually(t, "a duplicate policy is noticed", func() bool {
		return s.Log.Has(`b.yaml:1:12: the policy \"a\" is given twice; the first is at ` + folder)
	})
	if got := s.allow(t, "a", "me"); got != http.StatusTooManyRequests {
		t.Errorf("after an invalid file: got %d, want 429", got)
	}

	write(t, b, "policies: {b: {limits: [1/1h]}}\n")
	testkit.Eventually(t, "the new file is in force", func() bool { return s.allow(t, "b", "me") != http.StatusNotFound })
	if got := s.allow(t, "a", "me"); got != http.StatusTooManyRequests {
		t.Errorf("got %d, want 429: the counts were lost", got)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a removed file is noticed", func() bool { return s.allow(t, "b", "me") == http.StatusNotFound })
}
