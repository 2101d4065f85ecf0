package redisstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/opentest"
	"github.com/slidegate/slidegate/test/redistest"
)

func TestOpen(t *testing.T) {
	open := opentest.Opener(redisstore.Open)
	t.Run("server", func(t *testing.T) { opentest.Decides(t, open.Open(t, "redis://"+redistest.Server(t).Addr())) })
	t.Run("cluster", func(t *testing.T) {
		nodes := strings.Join(redistest.Cluster(t).Options().InitAddress, ",")
		opentest.Decides(t, open.Open(t, "redis+cluster://"+nodes))
		open.Refuses(t, "redis+cluster://nobody:hunter2@"+nodes, "WRONGPASS")
	})
	t.Run("sentinel", func(t *testing.T) {
		sentinels := strings.Join(redistest.Sentinel(t).Options().InitAddress, ",")
		opentest.Decides(t, open.Open(t, "redis+sentinel://"+sentinels+"/"+redistest.MasterSet))
		open.Refuses(t, "redis+sentinel://nobody:hunter2@"+sentinels+"/"+redistest.MasterSet, "WRONGPASS")
	})
	t.Run("unreachable", func(t *testing.T) { open.Unreachable(t, "redis://u:hunter2@ADDR") })
	t.Run("silent", func(t *testing.T) { open.Silent(t, "redis://ADDR?dial_timeout=1m&write_timeout=1m") })
	t.Run("later", func(t *testing.T) {
		server := redistest.Server(t, "maxclients 100")
		server.Kill()
		c := open.Open(t, "redis://"+server.Addr())
		opentest.Down(t, c, "refused")
		server.Restart()
		opentest.Decides(t, c)
	})
}

// TestOpenRefused: wrong credentials, users without rights and databases that do not exist are errors of Open, over both versions of the
// protocol.
func TestOpenRefused(t *testing.T) {
	open := opentest.Opener(redisstore.Open)
	server := redistest.Server(t, "user least on >hunter2 "+documentedRights(t), "user app on >hunter2 ~* &* +@all", "user reader on >hunter2 ~* &* +@read +@connection +evalsha +eval",
		"user stranger on >hunter2 ~other:* &* +@all", "user mute on >hunter2 ~* &* -@all +hello +auth")
	closed := redistest.Server(t, "maxclients 100")
	do(t, closed.Client(t), "CONFIG", "SET", "requirepass", "hunter2")
	for url, cause := range map[string]string{
		"redis://app:hunter2-not@" + server.Addr() + "?":    "WRONGPASS",
		"redis://nobody:hunter2@" + server.Addr() + "?":     "WRONGPASS",
		"redis://app:hunter2@" + server.Addr() + "/99?":     "DB index",
		"redis://reader:hunter2@" + server.Addr() + "?":     "script", // NOPERM since version 7.2
		"redis://stranger:hunter2@" + server.Addr() + "?":   "NOPERM",
		"redis://mute:hunter2@" + server.Addr() + "?":       "NOPERM",
		"redis://" + closed.Addr() + "?":                    "NOAUTH",
		"redis://:hunter2-not@" + closed.Addr() + "?":       "WRONGPASS",
		"redis://:hunter2@" + server.Addr() + "?protocol=2": "without any password",
	} {
		for _, protocol := range []string{"protocol=2", "protocol=3"} {
			if strings.HasSuffix(url, "protocol=2") { // over protocol 3, the server accepts any password of a user without one
				protocol = ""
			}
			t.Run(cause+"/"+protocol, func(t *testing.T) { open.Refuses(t, url+protocol, cause) })
		}
	}
	opentest.Decides(t, open.Open(t, "redis://app:hunter2@"+server.Addr()+"/15"))
	opentest.Decides(t, open.Open(t, "redis://least:hunter2@"+server.Addr()))
}

// TestOpenReadOnly: a replica, such as after a failover, and a server that is loading are no errors of Open.
func TestOpenReadOnly(t *testing.T) {
	open := opentest.Opener(redisstore.Open)
	server := redistest.Server(t, "maxclients 100")
	client := server.Client(t)
	do(t, client, "REPLICAOF", "127.0.0.1", "1")
	c := open.Open(t, "redis://"+server.Addr())
	kit.Eventually(t, "the store to be connected", func() bool { return c.Err() == nil })
	if err := opentest.Take(t, c); err == nil || errors.Is(err, store.ErrRefused) {
		t.Errorf("got %v, want an error that is not a refusal", err)
	}
	do(t, client, "REPLICAOF", "NO", "ONE")
	opentest.Decides(t, c)
}
