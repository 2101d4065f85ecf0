package shape

import "testing"

// A name is made once, and again after another limit has displaced it.
func TestNames(t *testing.T) {
	var names Names
	made := 0
	make := func(text string) func() string { return func() string { made++; return text } }
	far := uint64(1 + len(names.cells)) // has the cell of 1
	for i, step := range []struct {
		limit uint64
		want  string
		made  int
	}{{1, "a", 1}, {2, "b", 2}, {1, "a", 2}, {far, "c", 3}, {far, "c", 3}, {1, "a", 4}} {
		if got := names.Of(step.limit, make(step.want)); got != step.want || made != step.made {
			t.Errorf("step %d: got %q after %d calls, want %q after %d", i, got, made, step.want, step.made)
		}
	}
}
