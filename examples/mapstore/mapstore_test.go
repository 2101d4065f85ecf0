package mapstore

import (
	"testing"

	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(_ testing.TB, clock *storetest.Clock) store.Store { return New(clock.Now) })
}
