package formats

import (
	"maps"
	"testing"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// post is what is put on a store's board, after some time since the beginning: a note under the history's name.
type post struct {
	after        time.Duration
	author, text string
	life         time.Duration
}

// found is what is on the board some time after the beginning: the notes.
type found struct {
	after time.Duration
	notes map[string]string
}

// isBoard reports whether the history is of a board, and no limits.
func (h *history) isBoard() bool { return len(h.posts) > 0 }

func boardOf(t testing.TB, s store.Store) store.Board {
	t.Helper()
	board, ok := store.As[store.Board](s)
	if !ok {
		t.Fatal("the store has no board")
	}
	return board
}

// post puts on the board of a store what the history has.
func (h *history) post(t *testing.T, s store.Store, now *rule.Micros) {
	t.Helper()
	for _, p := range h.posts {
		*now = at(p.after)
		if err := boardOf(t, s).Post(t.Context(), h.name, p.author, []byte(p.text), p.life); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBoard checks what the board of a store has.
func (h *history) checkBoard(t *testing.T, s store.Store, now *rule.Micros) {
	t.Helper()
	for _, want := range h.found {
		*now = at(want.after)
		notes, err := boardOf(t, s).Notes(t.Context(), h.name)
		got := map[string]string{}
		for author, note := range notes {
			got[author] = string(note)
		}
		if err != nil || !maps.Equal(got, want.notes) {
			t.Errorf("%s, read %v later: got %q, %v, want %q", h.name, want.after, got, err, want.notes)
		}
	}
}
