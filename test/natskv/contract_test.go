package natskv_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/natstest"
)

func open(t testing.TB, url string, opts natskv.Options) *natskv.Engine {
	t.Helper()
	engine, err := natskv.Open(t.Context(), natstest.Connect(t, url), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	return engine
}

func TestContract(t *testing.T) {
	engine := open(t, natstest.Start(t), natskv.Options{Memory: true})
	storetest.RunWith(t, func(t testing.TB, clock *storetest.Clock) store.Store {
		s, err := kvstore.New(engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, storetest.Options{Short: true})
}
