package memstore_test

import (
	"bytes"
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/storetest"
)

func TestDocuments(t *testing.T) {
	s := memstore.NewDefault()
	storetest.RunDocuments(t, s, s)
}

// A snapshot has the documents with their revisions.
func TestSnapshotHasDocuments(t *testing.T) {
	s := memstore.NewDefault()
	revision, err := s.SwapDocument(t.Context(), "rulings", []byte("text"), 0)
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := s.Snapshot(&saved); err != nil {
		t.Fatal(err)
	}
	restored, err := memstore.Restore(&saved, memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if text, got, err := restored.LoadDocument(t.Context(), "rulings", 0); err != nil || string(text) != "text" || got != revision {
		t.Errorf("got %q, revision %d, %v; want the document with revision %d", text, got, err, revision)
	}
}
