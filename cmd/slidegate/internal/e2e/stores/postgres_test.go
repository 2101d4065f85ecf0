package stores_test

import (
	"errors"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
)

// TestPostgres opens a store that is down and checks the failure modes, then starts it and checks that it decides, with its schema
// created.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t, "fsync = off")
	server.Stop()
	o := openStore(t, server.URL("slidegate_schema=limits", "slidegate_unlogged=true", "pool_max_conns=4"), patientOptions())
	if err := o.Err(); !errors.Is(err, store.ErrDown) {
		t.Errorf("the store is down: %v", err)
	}
	for _, m := range modes(o) {
		if d := allow(t, limiter(t, m.store, "start")); d.Flags != m.flag || d.Allowed != m.allowed {
			t.Errorf("mode %s: got %+v, want flags %v and allowed %v", m.name, d, m.flag, m.allowed)
		}
	}
	server.Restart()
	testkit.Eventually(t, "the store to be connected", func() bool { return isUp(o) })
	checkSharedCounts(t, o)
}
