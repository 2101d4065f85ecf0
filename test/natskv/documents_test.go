package natskv_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/natstest"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	storetest.RunDocuments(t, newStore(t, open(t, url, natskv.Options{}), nil), newStore(t, open(t, url, natskv.Options{}), nil))
}
