package memstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/storetest"
)

func TestDocuments(t *testing.T) {
	s := memstore.NewDefault()
	storetest.RunDocuments(t, s, s)
}

// A restart keeps the documents with their revisions, in both degrees.
func TestRestartKeepsDocuments(t *testing.T) {
	for _, synced := range []bool{false, true} {
		s := openFolder(t, memstore.Options{Synced: synced})
		revision, err := s.SwapDocument(t.Context(), "rulings", []byte("text"), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range ways {
			restored := restart(t, s, way, memstore.Options{})
			if text, got, err := restored.LoadDocument(t.Context(), "rulings", 0); err != nil || string(text) != "text" || got != revision {
				t.Errorf("synced %v, %s: got %q, revision %d, %v; want the document with revision %d", synced, way, text, got, err, revision)
			}
		}
	}
}
