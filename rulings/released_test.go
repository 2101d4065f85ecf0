package rulings_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidegate/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/rulings"
)

// TestReadsReleasedFormats: rulings that a released version has stored are in force, and the same changes are stored the same. Stores keep
// the file compressed, under the name rulings; test/formats holds where.
func TestReadsReleasedFormats(t *testing.T) {
	text, err := os.ReadFile("testdata/released.json") // never changes
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // a bubble begins at midnight of 2000-01-01, UTC
		st := newStore(t)
		book := newBook(t, st)
		until := time.Now().Add(time.Hour)
		change := func(r rulings.Ruling) {
			r.Policy, r.Who = "p", "ann"
			add(t, book, r)
			testkit.Pass(time.Second)
		}
		change(rulings.Ruling{Key: "alice", Kind: rulings.Block, Until: until, Why: "abuse"})
		change(rulings.Ruling{Key: "bob", Kind: rulings.Limits, Limits: []string{"1000/1m", "5/1s token-bucket"}})
		change(rulings.Ruling{Key: "carol", Kind: rulings.Unlimited})
		change(rulings.Ruling{Key: "dave", Kind: rulings.Reset})
		if _, err := book.Remove(t.Context(), rulings.Ruling{Policy: "p", Key: "carol", Who: "ben", Why: "paid"}); err != nil {
			t.Fatal(err)
		}
		stored, _, err := st.LoadDocument(t.Context(), "rulings", 0)
		if err != nil {
			t.Fatal(err)
		}
		unpacked := testkit.Must(io.ReadAll(testkit.Must(gzip.NewReader(bytes.NewReader(stored)))(t)))(t)
		var want bytes.Buffer
		if err := json.Compact(&want, text); err != nil || !bytes.Equal(unpacked, want.Bytes()) {
			t.Errorf("stored as\n%s, %v, and a release has promised\n%s", unpacked, err, want.Bytes())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if _, err := st.SwapDocument(t.Context(), "rulings", packed.Bytes(), 0); err != nil {
			t.Fatal(err)
		}
		testkit.Pass(10 * time.Second)
		book := newBook(t, st)
		alice, bob := find(book, "alice"), find(book, "bob")
		all, err := book.List()
		switch {
		case err != nil || len(all) != 2 || alice == nil || bob == nil:
			t.Fatalf("got %+v, %v, want alice and bob", all, err)
		case alice.Kind != rulings.Block || !alice.Until.Equal(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)) || alice.Why != "abuse":
			t.Errorf("got %+v, want alice blocked until 1:00", alice)
		case bob.Kind != rulings.Limits || !slices.Equal(bob.Limits, []string{"1000/1m", "5/1s token-bucket"}) || !bob.Until.IsZero():
			t.Errorf("got %+v, want bob with two limits", bob)
		}
		log, err := book.Log(t.Context(), 10)
		if err != nil || len(log) != 5 || log[0].Kind != rulings.Clear || log[0].Who != "ben" || log[1].Kind != rulings.Reset {
			t.Errorf("got the log %+v, %v, want 5 changes, the last by ben", log, err)
		}
		if revision, _ := book.State(); revision != 5 {
			t.Errorf("got revision %d, want 5", revision)
		}
	})
}
