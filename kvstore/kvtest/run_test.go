package kvtest_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore/kvtest"
)

func TestTable(t *testing.T) {
	kvtest.Run(t, &kvtest.Table{})
}
