package natskv_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/natstest"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	clock, url := storetest.NewClock(1_767_000_000e6), natstest.Start(t)
	storetest.RunBoard(t, clock, newStore(t, open(t, url, natskv.Options{}), clock.Now), newStore(t, open(t, url, natskv.Options{}), clock.Now))
}
