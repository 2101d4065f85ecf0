package natskv_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
)

// open opens a bucket over a new connection, which is closed with the test.
func open(t testing.TB, url string, opts natskv.Options) *natskv.Engine {
	t.Helper()
	conn := natstest.Connect(t, url)
	var engine *natskv.Engine
	err := kit.Retry(nil, func() (err error) { // on a busy machine the clock cannot always be read in time
		engine, err = natskv.New(t.Context(), conn, opts)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	return engine
}

// newStore returns a store over an engine. It decides by now, or by the engine's clock if now is nil.
func newStore(t testing.TB, engine kvstore.Engine, now func() rule.Micros) *kvstore.Store {
	t.Helper()
	return kit.Must(kvstore.New(engine, kvstore.Options{Now: now, Timeout: patience}))(t)
}

// patience bounds the time of operations that should be quick.
const patience = 30 * time.Second

func testContract(t *testing.T, engine *natskv.Engine, short bool) {
	t.Helper()
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		return newStore(t, engine, clock.Now)
	}, storetest.Options{Short: short})
}

func TestContract(t *testing.T) {
	t.Parallel()
	testContract(t, open(t, natstest.Start(t), natskv.Options{Memory: true}), *historyLength < time.Minute)
}

// A cluster of three servers keeps the contract, and never admits one request too many of processes that are connected to different
// servers.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	t.Run("contract", func(t *testing.T) {
		testContract(t, open(t, cluster.URL(0), natskv.Options{Bucket: "contract", Replicas: 3, Memory: true}), true)
	})
	t.Run("race", func(t *testing.T) { testRace(t, cluster.URL, 3) })
	t.Run("handover", func(t *testing.T) { testHandover(t, cluster) })
}
