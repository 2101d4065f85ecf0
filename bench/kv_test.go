package main

import (
	"sync/atomic"
	"testing"
	"time"
)

// The swap loop must keep the limit too, or the comparison would not be fair.
func TestKVRowsAdmitTheQuota(t *testing.T) {
	nats, err := openNATS(t.Context(), t.TempDir(), 1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer nats.close()
	loop, end, err := nats.swapLoop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	var trips atomic.Int64
	const quota, callers, each = 20, 4, 10
	allow := loop.allow(spec{quota: quota, window: time.Hour}, &trips)
	crew := newCrew(callers)
	err = crew.run(func(_ int, c *caller) error {
		for range each {
			if err := c.send(t.Context(), allow, "a:key"); err != nil {
				return err
			}
		}
		return nil
	})
	if s := crew.sample(time.Second); err != nil || s.passed != quota || trips.Load() < quota+callers*each {
		t.Errorf("%d of %d requests were admitted in %d round trips, %v; want %d", s.passed, s.requests, trips.Load(), err, quota)
	}
}
