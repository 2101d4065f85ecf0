package natskv_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

var hourly = slidegate.Limit{Name: "hourly", Quota: 2, Window: time.Hour, Anchor: slidegate.AnchorFirst}

// A full bucket and a server that is gone are outages, and what fails then was not carried out.
func TestWhatErrorsMean(t *testing.T) {
	t.Parallel()
	node := natstest.StartNode(t)
	st := newStore(t, open(t, node.URL(), natskv.Options{MaxBytes: 16 << 10}), nil)
	limit := kit.Must(adapter.Bind("faults", hourly))(t)
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		_, err = take(st, limit, fmt.Sprint("key-", i), 1)
	}
	if got := storetest.Marks(err); got != "down undone" {
		t.Errorf("a full bucket: got %q of %v, want down undone", got, err)
	}
	node.Kill()
	kit.Eventually(t, "the connection to be known as broken", func() bool {
		_, err := take(st, limit, "key-0", 1)
		switch got := storetest.Marks(err); got {
		case "down undone":
			return true
		case "", "undone", "busy", "busy undone", "down": // it was in flight
			return false
		default:
			t.Fatalf("got %q of %v", got, err)
			return false
		}
	})
	if _, _, err := st.LoadDocument(t.Context(), "name", 0); storetest.Marks(err) != "down undone" {
		t.Errorf("a document: got %q of %v", storetest.Marks(err), err)
	}
}

// A bucket that does not exist decides nothing.
func TestDeletedBucketIsDown(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	st := newStore(t, open(t, url, natskv.Options{}), nil)
	limit := kit.Must(adapter.Bind("faults", hourly))(t)
	kit.Must(take(st, limit, "key", 1))(t)
	if err := jetStream(t, url).DeleteStream(t.Context(), bucketStream); err != nil {
		t.Fatal(err)
	}
	if _, err := take(st, limit, "other", 1); storetest.Marks(err) != "down undone" {
		t.Errorf("got %q of %v, want down undone", storetest.Marks(err), err)
	}
}
