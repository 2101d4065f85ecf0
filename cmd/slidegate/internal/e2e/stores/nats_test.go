package stores_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/natstest"
)

func TestNATS(t *testing.T) {
	o := openConnected(t, natstest.Start(t)+"?bucket=limits&prefix=mine", patientOptions())
	if o.Memory != nil {
		t.Error("Memory is set for a store that is not in memory")
	}
	if traits := o.Store.Traits(); traits.Name != "nats" || !traits.OneKey || !traits.ServerClock {
		t.Errorf("got traits %+v", traits)
	}
	checkSharedCounts(t, o)
}

// TestNATSDown checks that the failure modes decide, and that the error does not contain the password.
func TestNATSDown(t *testing.T) {
	o := openStore(t, "nats://u:hunter2@127.0.0.1:1", hasty())
	if err := o.Err(); !errors.Is(err, store.ErrDown) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the store is down: %v", err)
	}
	for _, m := range modes(o) {
		if d := allow(t, limiter(t, m.store, "start")); d.Flags != m.flag || d.Allowed != m.allowed {
			t.Errorf("mode %s: got %+v, want flags %v and allowed %v", m.name, d, m.flag, m.allowed)
		}
	}
}

// TestEmbeddedNATS checks that a server in this process keeps counts and documents across a restart, and that its folder is
// free at once.
func TestEmbeddedNATS(t *testing.T) {
	url := "nats:embedded?dir=" + t.TempDir()
	first := openConnected(t, url, patientOptions())
	checkSharedCounts(t, first)
	used := limiter(t, first.Store, "kept")
	for range 3 {
		if d := allow(t, used); !d.Allowed {
			t.Fatalf("one of three units: got %+v, want allowed", d)
		}
	}
	documents, _ := store.As[store.Documents](first.Store)
	_, err := documents.SwapDocument(ctx, "a", []byte("text"), 0)
	testkit.NoError(t, err)
	testkit.NoError(t, first.Close())

	second := openConnected(t, url, patientOptions())
	if d := allow(t, limiter(t, second.Store, "kept")); d.Allowed || d.Flags != 0 {
		t.Errorf("the fourth unit, after a restart: got %+v, want refused", d)
	}
	documents, _ = store.As[store.Documents](second.Store)
	if text, _, err := documents.LoadDocument(ctx, "a", 0); err != nil || string(text) != "text" {
		t.Errorf("got the document %q, %v; want the one from before", text, err)
	}
}

func TestPenaltyOnNATS(t *testing.T) { checkSharedPenalty(t, natstest.Start(t)) }
