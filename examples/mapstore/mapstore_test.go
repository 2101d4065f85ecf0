package mapstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/examples/mapstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(_ testing.TB, clock *storetest.Clock) store.Store { return mapstore.New(clock.Now) })
}
