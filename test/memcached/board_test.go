package memcached_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/memcachedtest"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	clock, server := storetest.NewClock(1_767_000_000e6), memcachedtest.Start(t)
	opts := kvstore.Options{Now: clock.Now}
	storetest.RunBoard(t, clock, newStore(t, openOnServer(t, server), opts), newStore(t, openOnServer(t, server), opts))
}
