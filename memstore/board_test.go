package memstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/storetest"
)

func TestBoard(t *testing.T) {
	clock := storetest.NewClock(1_767_000_000e6)
	s, err := memstore.New(memstore.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunBoard(t, clock, s, s)
}
