package engine_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/examples/engine"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestEngine(t *testing.T) { kvtest.Run(t, &engine.Engine{}) }

func TestStoreOverEngine(t *testing.T) {
	entries := &engine.Engine{}
	storetest.Run(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		s, err := kvstore.New(entries, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
