package pgstore_test

import (
	"testing"

	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/storetest"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	for name, params := range map[string][]string{"prepared": nil, "simple protocol": {"default_query_exec_mode=simple_protocol"}} {
		t.Run(name, func(t *testing.T) {
			pool := database(t, pgstore.Options{Prefix: "my_"}, params...)
			one := newStore(t, pool, pgstore.Options{Prefix: "my_"})
			other := newStore(t, pool, pgstore.Options{Prefix: "my_"})
			storetest.RunDocuments(t, one, other)
		})
	}
}
