package config_test

import (
	"testing"

	"github.com/slidegate/slidegate/config"
)

// The hash depends on what a file says, not on how it says it, and not on passwords.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		file, err := config.Parse("file.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return config.Hash(file)
	}
	want := hash("store: redis://u:secret@host:6379\npolicies: {a: {limits: [5/1h]}}\n")
	if len(want) != 16 {
		t.Errorf("the hash is %q, want 16 digits", want)
	}
	if got := hash("# the same\npolicies:\n  a:\n    limits: [5/1h]\nstore: redis://u:other@host:6379\n"); got != want {
		t.Errorf("the same file otherwise written: %s, want %s", got, want)
	}
	if got := hash("store: redis://u:secret@host:6379\npolicies: {a: {limits: [6/1h]}}\n"); got == want {
		t.Errorf("another limit has the hash %s too", got)
	}
}
