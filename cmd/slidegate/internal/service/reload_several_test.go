package service_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/config"
)

// TestReloadOfSeveralFilesIsAllOrNothing: all files are watched, including new ones in a folder, and if one is invalid, none is loaded.
func TestReloadOfSeveralFilesIsAllOrNothing(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "a.yaml"), "policies: {a: {limits: [1/1h]}}\n")
	s := start(t, plain, func(o *service.Options) {
		o.Paths = append(o.Paths, folder)
		file, err := config.Load(config.Options{}, o.Paths...)
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

// A file of overrides is watched as the policy file is, wherever it is, also after the policy file has named another one.
func TestReloadOverridesFile(t *testing.T) {
	folder, elsewhere, third := t.TempDir(), t.TempDir(), t.TempDir()
	path := filepath.Join(folder, "a.yaml")
	naming := func(file string) string {
		return "policies: {a: {key: user, limits: [1/1h], overrides_file: " + file + "}}\n"
	}
	first, second := filepath.Join(elsewhere, "first.yaml"), filepath.Join(third, "second.yaml")
	write(t, first, "[]\n")
	write(t, second, "[{key: bob, unlimited: true}]\n")
	write(t, path, naming(first))
	s := start(t, plain, func(o *service.Options) {
		o.Paths = append(o.Paths, folder)
		file, err := config.Load(config.Options{}, o.Paths...)
		if err != nil {
			t.Fatal(err)
		}
		o.File = file
	})
	unlimited := func(key string) func() bool {
		return func() bool {
			first, second := s.allow(t, "a", key), s.allow(t, "a", key)
			return first == http.StatusOK && second == http.StatusOK
		}
	}
	write(t, first, "[{key: ann, unlimited: true}]\n")
	testkit.Eventually(t, "the changed overrides are in force", unlimited("ann"))
	write(t, path, naming(second))
	testkit.Eventually(t, "the other overrides are in force", unlimited("bob"))
	write(t, second, "[{key: eve, unlimited: true}]\n")
	testkit.Eventually(t, "the change of the other overrides is in force", unlimited("eve"))
}
