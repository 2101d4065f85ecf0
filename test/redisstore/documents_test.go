package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestDocuments(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Server(t), redistest.Cluster(t)
	for name, client := range map[string]func() rueidis.Client{
		"server":  func() rueidis.Client { return server.Client(t) },
		"cluster": func() rueidis.Client { return cluster.Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.RunDocuments(t, newStore(t, client(), redisstore.Options{}), newStore(t, client(), redisstore.Options{}))
		})
	}
}
