package memcached_test

import (
	"testing"

	"github.com/slidegate/slidegate/kvstore/memcached"
	"github.com/slidegate/slidegate/test/memcachedtest"
	"github.com/slidegate/slidegate/test/opentest"
)

func TestOpen(t *testing.T) {
	open := opentest.Opener(memcached.Open)
	t.Run("server", func(t *testing.T) {
		opentest.Decides(t, open.Open(t, "memcached://"+memcachedtest.Start(t).Addr()+"?prefix=mine&timeout=5s"), false)
	})
	t.Run("unreachable", func(t *testing.T) { open.Unreachable(t, "memcached://ADDR") })
	t.Run("silent", func(t *testing.T) { open.Silent(t, "memcached://ADDR?timeout=1m") })
	t.Run("later", func(t *testing.T) {
		server := memcachedtest.Start(t)
		server.Kill()
		c := open.Open(t, "memcached://"+server.Addr()+"?timeout=5s")
		opentest.Down(t, c, "refused")
		server.Restart()
		opentest.Decides(t, c, false)
	})
	for name, parameters := range map[string]string{"one is down": "?timeout=5s", "one is down, machine's clock": "?timeout=5s&clock=machine"} {
		t.Run(name, func(t *testing.T) {
			up, down := memcachedtest.Start(t), memcachedtest.Start(t)
			down.Kill()
			c := open.Open(t, "memcached://"+up.Addr()+","+down.Addr()+parameters)
			if err := c.Err(); err != nil {
				t.Fatalf("the store is not connected although one of its servers is up: %v", err)
			}
			checkNodes(t, c)
			down.Restart()
			for i := range 100 {
				if _, err := take(t.Context(), c, nodesLimit(t), keyOf(i), 1); err != nil {
					t.Fatalf("after the other server has started: %v", err)
				}
			}
		})
	}
}
