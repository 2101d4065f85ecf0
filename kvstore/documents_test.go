package kvstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// putEngine can only read and write.
type putEngine struct{}

func (putEngine) Get(context.Context, string) ([]byte, error)              { return nil, nil }
func (putEngine) Put(context.Context, string, []byte, time.Duration) error { return nil }
func (putEngine) Now() rule.Micros                                         { return 0 }
func (putEngine) Traits() kvstore.Traits                                   { return kvstore.Traits{Name: "put"} }

// Where updates may be lost there are no documents, and one that the engine does not take is not sent to it.
func TestRefusesDocuments(t *testing.T) {
	lossy, err := kvstore.New(kvstore.WithLostUpdates(putEngine{}), kvstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lossy.LoadDocument(t.Context(), "a", 0); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("LoadDocument: got %v, want ErrUnsupported", err)
	}
	if _, err := lossy.SwapDocument(t.Context(), "a", nil, 0); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("SwapDocument: got %v, want ErrUnsupported", err)
	}
	small, err := kvstore.New(&kvtest.Table{MaxValue: 100}, kvstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := small.SwapDocument(t.Context(), "a", make([]byte, 101), 0); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("a document that is too large: got %v, want ErrUnsupported", err)
	}
}
