package pgstore

import (
	"strings"
	"testing"
)

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
			for _, left := range []string{"{schema}", "{prefix}", "{unlogged}", "{name}", "{readable", "\r"} {
				if strings.Contains(text, left) {
					t.Errorf("step %d contains %q, want it replaced", step.Version, left)
				}
			}
		}
		if guarded := strings.Contains(step.Up, "previous >= -2 OR"); guarded != (i+1 == 2 || i+1 == 4 || i+1 == 6 || i+1 == 7) {
			t.Errorf("step %d rejects rows of a newer format: %v", step.Version, guarded)
		}
	}
}
