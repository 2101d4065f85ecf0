package pgstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// Released steps do not change: they are not applied again where they were applied, and directories of migrations
// contain them.
func TestReleasedStepsDoNotChange(t *testing.T) {
	for name, want := range map[string]string{
		"0001_state":   "04a23ab48e2ff16dbf57d23312066b6aaabd93efffe7c82c5c3e2139fa313005",
		"0002_take":    "a1487b7748b913a14f828be2a1369b311bbb51c14b47d0c5f0f12f604cb5b1ff",
		"0003_rule":    "1ac16da4a08f8ac4131a28a7663cae3b5788863bc8711ce8b13c157e846c7cbe",
		"0004_decide":  "6f9ada34f418358f4ae331bd9aad928adb69e5d24d7864644279de5e7e977361",
		"0005_expire":  "c807d60c9f23dd9779a57f2c0121e403edcb0121328ec7f7b23e0d8db5e2ca6c",
		"0006_take2":   "2b6ab12ceae1fed8d8c29bcd82fd5e1ae781ad986366b83cb4928fe3c8e9faa9",
		"0007_rule2":   "a72cb2d91e0d745c078493dc3badb6706e1f06d0265dcd0cf1e8b5c5dfa680e4",
		"0008_decide2": "3304b82eb8ba7700ae9e4bd547789c1680a30af2ffd27f71e4e301ab3c3afbd4",
		"0009_single":  "662474bca6822e35f81350b4cde084c019339c98ce5133f8da9f6e22683dba28",
	} {
		step, err := readStep(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256([]byte(step.Up)); hex.EncodeToString(sum[:]) != want {
			t.Errorf("the SHA-256 of %s is %x, want %s: add a step instead of changing one", name, sum, want)
		}
	}
}

// No placeholder is left in the steps.
func TestStepsAreComplete(t *testing.T) {
	steps, err := Migrations(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range steps {
		if step.Version != i+1 {
			t.Errorf("step %d has version %d", i+1, step.Version)
		}
		for _, text := range []string{step.Up, step.Down} {
			for _, left := range []string{"{schema}", "{prefix}", "{unlogged}", "{name}", "{again", "{readable", "\r"} {
				if strings.Contains(text, left) {
					t.Errorf("step %d contains %q, want it replaced", step.Version, left)
				}
			}
		}
		if guarded := strings.Contains(step.Up, "previous >= -2 OR"); guarded != (i+1 == 6 || i+1 >= 8) {
			t.Errorf("step %d rejects rows of a newer format: %v", step.Version, guarded)
		}
	}
}
