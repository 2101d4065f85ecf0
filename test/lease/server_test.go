package lease_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
	"github.com/slidegate/slidegate/test/serverclock"
)

// patience bounds the time of operations that should be quick.
const patience = 30 * time.Second

// server is a real server that leases are taken from.
type server struct {
	addr string                   // where it listens
	via  func(addr string) string // how openStore reaches it at another address
	raw  store.Store              // its store, without leases
	skew time.Duration            // how far behind the server's clock the times of decisions may be
}

// kind is a kind of server that tests here run over. The clock may be nil.
type kind struct {
	name  string
	start func(t *testing.T, clock *serverclock.Clock) server
}

// followed is the skew of clocks that a process follows and does not read for each decision: half a round trip, which takes some
// milliseconds if the machine is busy.
const followed = 5 * time.Millisecond

// servers are the kinds whose clock a test can set.
var servers = []kind{
	{name: "Redis", start: func(t *testing.T, clock *serverclock.Clock) server {
		node := redistest.ServerWithEnv(t, envOf(clock))
		s := server{addr: node.Addr(), via: func(addr string) string { return "redis " + addr }}
		s.raw = kit.Must(openStore(t, s.via(s.addr), nil))(t)
		return s
	}},
	{name: "PostgreSQL", start: func(t *testing.T, clock *serverclock.Clock) server {
		node := pgtest.StartWithEnv(t, envOf(clock), "fsync = off", "synchronous_commit = off", "max_connections = 100")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := pgstore.Migrate(ctx, node.Pool(t), pgstore.Options{}); err != nil {
			t.Fatal(err)
		}
		s := server{addr: node.Addr(), via: func(addr string) string { return "postgres " + node.URLAt(addr, "pool_max_conns=8") }}
		s.raw = kit.Must(openStore(t, s.via(s.addr), nil))(t)
		return s
	}},
}

// natsServer is a kind too, but its servers do not use the C library, so tests cannot set their clock.
var natsServer = kind{name: "NATS", start: func(t *testing.T, _ *serverclock.Clock) server {
	addr := strings.TrimPrefix(natstest.StartNode(t).URL(), "nats://")
	s := server{addr: addr, via: func(addr string) string { return "nats nats://" + addr }, skew: followed}
	s.raw = kit.Must(openStore(t, s.via(s.addr), nil))(t)
	return s
}}

func envOf(clock *serverclock.Clock) []string {
	if clock == nil {
		return nil
	}
	return clock.Env()
}

// overServers runs a test over each server.
func overServers(t *testing.T, run func(t *testing.T, s server)) {
	t.Helper()
	t.Parallel()
	for _, kind := range append(slices.Clone(servers), natsServer) {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			run(t, kind.start(t, nil))
		})
	}
}

// openStore returns the store of a server, which is closed with the test. It decides by the server's clock, unless now
// is set.
func openStore(t testing.TB, place string, now func() rule.Micros) (store.Store, error) {
	t.Helper()
	opts := kvstore.Options{Now: now}
	if now != nil {
		opts.Timeout = patience // nothing fails in tests with their own clock, but this machine may be busy
	}
	switch kind, where, _ := strings.Cut(place, " "); kind {
	case "postgres":
		return pgstore.New(pgtest.Pool(t, where), pgstore.Options{Now: now})
	case "nats":
		engine, err := natskv.New(context.Background(), natstest.Connect(t, where), natskv.Options{Memory: true})
		if err != nil {
			return nil, err
		}
		t.Cleanup(engine.Close)
		return kvstore.New(engine, opts)
	default:
		return openRedis(t, where, now)
	}
}

func openRedis(t testing.TB, where string, now func() rule.Micros) (store.Store, error) {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{where}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return nil, err
	}
	t.Cleanup(client.Close)
	return redisstore.New(client, redisstore.Options{Now: now})
}

func bind(limit slidegate.Limit) (*store.Limit, error) { return adapter.Bind("leases", limit) }

// leased returns a store with leases over another.
func leased(t testing.TB, inner store.Store) *lease.Store {
	t.Helper()
	return lease.New(inner, lease.Options{})
}

// apply sends one request with one charge.
func apply(s store.Store, op rule.Op, charge store.Charge) (rule.Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var answers [1]rule.Answer
	err := s.Apply(ctx, []store.Request{{Op: op, Charges: []store.Charge{charge}, Answers: answers[:]}})
	return answers[0], err
}

// used returns how many units of the quota the server counts.
func used(t testing.TB, s server, limit *store.Limit) int64 {
	t.Helper()
	a := kit.Must(apply(s.raw, rule.Peek, store.Charge{Limit: limit, Key: key}))(t)
	return limit.Rule().Quota - a.Remaining
}

// key is the key of all tests.
const key = "key"

// warmUp takes units one by one until some come from a lease, and returns how many it took.
func warmUp(t testing.TB, s *lease.Store, limit *store.Limit) (taken int64) {
	t.Helper()
	for {
		allowed, flags, _, _, _, _, err := s.TakeSingle(context.Background(), limit, key, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !allowed {
			t.Fatalf("refused after %d units, and none was leased", taken)
		}
		if taken++; flags&rule.Leased != 0 {
			return taken
		}
	}
}
