package kvstore_test

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/store"
)

// A document that the engine does not take is not sent to it.
func TestRefusesLargeDocuments(t *testing.T) {
	small, err := kvstore.New(&kvtest.Table{MaxValue: 100}, kvstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.SwapDocument(t.Context(), "a", make([]byte, 101), 0); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a document that is too large: got %v, want ErrUnsupported", err)
	}
}
