package model_test

import (
	"testing"
	"time"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/storetest"
	"github.com/slidegate/slidegate/test/faultproxy"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/natstest"
	"github.com/slidegate/slidegate/test/opentest"
	"github.com/slidegate/slidegate/test/pgtest"
	"github.com/slidegate/slidegate/test/redistest"
)

func memory(t testing.TB, clock *storetest.Clock) store.Store {
	return kit.Must(memstore.New(memstore.Options{Now: clock.Now}))(t)
}

func TestMemory(t *testing.T) {
	t.Parallel()
	plays(t, 100_000, on(memory), "clock moved")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	client := server.Client(t)
	redis := func(t testing.TB, clock *storetest.Clock) store.Store {
		return kit.Must(redisstore.New(client, redisstore.Options{Now: clock.Now}))(t)
	}
	plays(t, 10_000, on(redis))
	noCliff(t, 2_000, over(redis))
	holdsKept(t, 3_000, redis)
	line := faultproxy.New(t, server.Addr())
	calledOnce(t, opentest.Opener(redisstore.Open).Open(t, "redis://"+line.Addr()), kit.Must(redisstore.New(client, redisstore.Options{}))(t), &wire{Proxy: line}, 40)
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	pool := server.Pool(t)
	if err := pgstore.Migrate(t.Context(), pool, pgstore.Options{}); err != nil {
		t.Fatal(err)
	}
	postgres := func(t testing.TB, clock *storetest.Clock) store.Store {
		return kit.Must(pgstore.New(pool, pgstore.Options{Now: clock.Now}))(t)
	}
	plays(t, 5_000, on(postgres))
	noCliff(t, 1_000, over(postgres))
	holdsKept(t, 2_000, postgres)
	line := faultproxy.New(t, server.Addr())
	far := opentest.Opener(pgstore.Open).Open(t, server.URLAt(line.Addr(), "connect_timeout=2"))
	calledOnce(t, far, kit.Must(pgstore.New(pool, pgstore.Options{}))(t), &wire{Proxy: line}, 40)
}

func TestNATS(t *testing.T) {
	t.Parallel()
	url := natstest.Start(t)
	conn := natstest.Connect(t, url)
	engine := kit.Must(natskv.New(t.Context(), conn, natskv.Options{Memory: true}))(t)
	t.Cleanup(engine.Close)
	plays(t, 5_000, on(overEngine(engine)))
	noCliff(t, 1_000, over(overEngine(engine)))
	holdsKept(t, 2_000, overEngine(engine))
	line := faultproxy.New(t, address(url))
	far := opentest.Opener(natskv.Open).Open(t, "nats://"+line.Addr()+"?bucket=once&timeout=100ms")
	near := opentest.Opener(natskv.Open).Open(t, url+"?bucket=once&timeout=100ms")
	calledOnce(t, far, near, &wire{Proxy: line, onlyCut: true}, 50)
}

// overEngine opens stores over an engine. It keeps entries for longer than a game takes, whatever the game's clock says.
func overEngine(engine kvstore.Engine) open {
	return func(t testing.TB, clock *storetest.Clock) store.Store {
		return kit.Must(kvstore.New(engine, kvstore.Options{Now: clock.Now, Timeout: time.Minute, Grace: time.Hour}))(t)
	}
}
