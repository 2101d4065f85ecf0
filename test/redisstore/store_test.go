package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/porttest"
	"github.com/slidegate/slidegate/test/redistest"
)

// newStore is New for valid options.
func newStore(t testing.TB, client rueidis.Client, opts redisstore.Options) *redisstore.Store {
	t.Helper()
	return kit.Must(redisstore.New(client, opts))(t)
}

var bind = porttest.Bind

// contract runs the store contract through a client.
func contract(t *testing.T, client rueidis.Client) {
	t.Helper()
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		t.Helper()
		return newStore(t, client, redisstore.Options{Now: clock.Now})
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	contract(t, redistest.Server(t).Client(t))
}

func TestStoreOverCluster(t *testing.T) {
	t.Parallel()
	contract(t, redistest.Cluster(t).Client(t))
}

func TestStoreOverSentinel(t *testing.T) {
	t.Parallel()
	contract(t, redistest.Sentinel(t).Client(t))
}
