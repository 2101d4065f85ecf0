package natskv_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore/kvtest"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/test/natstest"
)

func TestEngineContract(t *testing.T) {
	kvtest.Run(t, open(t, natstest.Start(t), natskv.Options{Memory: true}))
}
