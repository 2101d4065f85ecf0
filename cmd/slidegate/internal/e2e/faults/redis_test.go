package faults_test

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/redistest"
)

// faults returns all faults of all stores.
func faults() (list []fault) {
	for _, of := range [][]fault{redisFaults(), clusterFaults(), postgresFaults(), natsFaults(), embeddedFaults()} {
		list = append(list, of...)
	}
	return list
}

// server is a server that can be stopped and killed.
type server interface {
	Addr() string
	Signal(syscall.Signal)
	Kill()
	Restart()
}

// nothing is the fault of the control rows.
func nothing() {}

// slowness is the delay of a slow network. Stores have 100 ms by default.
const slowness = 80 * time.Millisecond

// common returns the faults that every server has.
func common(store string, open func(t *testing.T) (s server, url func(addr string) string)) []fault {
	direct := func(name string, atStart bool, begin, end func(s server)) fault {
		return fault{store, name, func(t *testing.T, _ program) setting {
			s, url := open(t)
			return setting{url: url(s.Addr()), begin: func() { begin(s) }, end: func() { end(s) }, atStart: atStart}
		}}
	}
	wired := func(name string, begin, end func(w *faultproxy.Proxy)) fault {
		return fault{store, name, func(t *testing.T, _ program) setting {
			s, url := open(t)
			w := faultproxy.New(t, s.Addr())
			return setting{url: url(w.Addr()), begin: func() { begin(w) }, end: func() { end(w) }}
		}}
	}
	return []fault{
		direct("none", false, func(server) {}, func(server) {}),
		direct("stopped", false, func(s server) { s.Signal(syscall.SIGSTOP) }, func(s server) { s.Signal(syscall.SIGCONT) }),
		direct("killed", false, server.Kill, server.Restart),
		direct("refused at the start", true, server.Kill, server.Restart),
		wired("cut", (*faultproxy.Proxy).Cut, (*faultproxy.Proxy).Mend),
		wired("replies lost", func(w *faultproxy.Proxy) { w.Mute(time.Hour) }, (*faultproxy.Proxy).Heal),
		wired("connections reset", func(w *faultproxy.Proxy) { w.Reset(0) }, (*faultproxy.Proxy).Heal),
		wired("slow by 80 ms", func(w *faultproxy.Proxy) { w.Slow(slowness, 0) }, (*faultproxy.Proxy).Heal),
	}
}

// redisNode is a Redis server.
type redisNode struct{ *redistest.Node }

func (n redisNode) Signal(s syscall.Signal) { n.Node.Signal(s) }

// redisCommands sends commands over a connection that was made before, so that it works while new ones do not.
func redisCommands(t *testing.T, addr string) func(command string) error {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: testkit.Patience})
	t.Cleanup(func() { _ = client.Close() })
	testkit.NoError(t, client.Ping(t.Context()).Err())
	return func(command string) error {
		var args []any
		for _, word := range strings.Fields(command) {
			args = append(args, word)
		}
		return client.Do(context.Background(), args...).Err()
	}
}

// sending returns a function that sends commands, which must succeed.
func sending(t *testing.T, send func(command string) error, commands ...string) func() {
	return func() {
		t.Helper()
		for _, command := range commands {
			if err := send(command); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

func redisFaults() []fault {
	open := func(t *testing.T) (server, func(string) string) {
		return redisNode{redistest.Server(t, "appendonly yes")}, func(addr string) string { return "redis://" + addr }
	}
	// commands is a fault that begins and ends with commands.
	commands := func(name string, begin, end []string) fault {
		return fault{"Redis", name, func(t *testing.T, _ program) setting {
			node := redistest.Server(t, "appendonly yes")
			send := redisCommands(t, node.Addr())
			return setting{url: "redis://" + node.Addr(), begin: sending(t, send, begin...), end: sending(t, send, end...)}
		}}
	}
	return append(common("Redis", open),
		commands("READONLY", []string{"replicaof 127.0.0.1 1"}, []string{"replicaof no one"}),
		commands("full", []string{"config set maxmemory-policy noeviction", "config set maxmemory 1"}, []string{"config set maxmemory 0"}),
		commands("NOREPLICAS", []string{"config set min-replicas-to-write 1"}, []string{"config set min-replicas-to-write 0"}),
		commands("writes paused", []string{"client pause 600000 write"}, []string{"client unpause"}),
		commands("scripts not permitted", []string{"acl setuser default -eval -evalsha -@scripting"}, []string{"acl setuser default +@all"}),
		commands("password changed", []string{"config set requirepass secret", "client kill type normal skipme yes"}, []string{"acl setuser default nopass"}),
		commands("connections used up", []string{"config set maxclients 1", "client kill type normal skipme yes"}, []string{"config set maxclients 10000"}),
		fault{"Redis", "busy with a script", func(t *testing.T, _ program) setting {
			node := redistest.Server(t, "appendonly yes", "busy-reply-threshold 100")
			send, kill := redisCommands(t, node.Addr()), redisCommands(t, node.Addr())
			var script sync.WaitGroup
			return setting{
				url:   "redis://" + node.Addr(),
				begin: func() { script.Go(func() { _ = send("eval while(1)do--[[]]end 0") }) },
				end:   func() { testkit.NoError(t, kill("script kill")); script.Wait() },
			}
		}},
		fault{"Redis", "wrong password at the start", func(t *testing.T, _ program) setting {
			node := redistest.Server(t)
			send := redisCommands(t, node.Addr())
			return setting{
				url: "redis://:wrong@" + node.Addr(), atStart: true,
				begin: sending(t, send, "config set requirepass right"), end: sending(t, send, "config set requirepass wrong"),
			}
		}},
		fault{"Redis", "READONLY at the start", func(t *testing.T, _ program) setting {
			node := redistest.Server(t)
			send := redisCommands(t, node.Addr())
			return setting{
				url: "redis://" + node.Addr(), atStart: true,
				begin: sending(t, send, "replicaof 127.0.0.1 1"), end: sending(t, send, "replicaof no one"),
			}
		}},
	)
}

func clusterFaults() []fault {
	// of is a fault of the first master and, unless a replica may take over, of its replica.
	of := func(name string, takeover bool, begin, end func(n *redistest.Node)) fault {
		return fault{"Redis Cluster", name, func(t *testing.T, _ program) setting {
			nodes := redistest.Cluster(t)
			var addrs []string
			for _, n := range nodes {
				sending(t, redisCommands(t, n.Addr()), "config set cluster-require-full-coverage no")()
				addrs = append(addrs, n.Addr())
			}
			each := func(do func(*redistest.Node)) func() {
				return func() {
					do(nodes[0])
					if !takeover {
						do(nodes[3])
					}
				}
			}
			return setting{url: "redis+cluster://" + strings.Join(addrs[:3], ","), begin: each(begin), end: each(end), forgets: !takeover}
		}}
	}
	stop, resume := func(n *redistest.Node) { n.Signal(syscall.SIGSTOP) }, func(n *redistest.Node) { n.Signal(syscall.SIGCONT) }
	none := func(*redistest.Node) {}
	return []fault{
		of("none", true, none, none),
		of("one node stopped", false, stop, resume),
		of("one node killed", false, (*redistest.Node).Kill, (*redistest.Node).Restart),
		of("one node killed, its replica takes over", true, (*redistest.Node).Kill, (*redistest.Node).Restart),
		{"Redis Cluster", "one node full", func(t *testing.T, _ program) setting {
			nodes := redistest.Cluster(t)
			send := redisCommands(t, nodes[0].Addr())
			return setting{
				url:   "redis+cluster://" + nodes[0].Addr() + "," + nodes[1].Addr(),
				begin: sending(t, send, "config set maxmemory 1"), end: sending(t, send, "config set maxmemory 0"),
			}
		}},
	}
}
