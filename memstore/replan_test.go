package memstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/memstore"
)

// A request that finds its page being replaced retries until the new page is there: that must not count against the number
// of shapes.
func TestSplitsAreNotShapes(t *testing.T) {
	st := open(t, memstore.Options{})
	l := newLimiter(t, st, sliding(5, time.Minute))
	allow(t, l, "key", 1)
	lock, thaw := st.Freeze(adapter.Bound(l)[0])
	done := make(chan error, 1)
	go func() {
		_, err := l.Allow(context.Background(), "new")
		done <- err
	}()
	for turns := 0; turns < 100_000; { // each lets the request retry
		lock.Lock()
		turns++
		lock.Unlock()
	}
	thaw()
	if err := <-done; err != nil {
		t.Errorf("got %v, want the request to wait for the page", err)
	}
}
