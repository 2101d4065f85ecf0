package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/store"
)

// kvTimeout is how long a decision may take on a busy machine before the run ends.
const kvTimeout = 20 * time.Second

// kvServer is a server in the tables: a key-value engine, or one that they are compared with.
type kvServer struct {
	cpuReporter
	name  string
	kv    *natsServer // nil if it is not a key-value engine
	open  func(context.Context) (st store.Store, trips *atomic.Int64, end func(), err error)
	close func()
}

// openKVServers starts all servers that are installed, and adds a row to left for each of the others.
func (r *run) openKVServers(ctx context.Context, left *table) (servers []*kvServer, err error) {
	for _, n := range []struct {
		name   string
		size   int
		memory bool
	}{{"NATS, memory", 1, true}, {"NATS, file", 1, false}, {"NATS, file, 3 servers", 3, false}} {
		s, err := openNATS(ctx, filepath.Join(r.folder, fmt.Sprint("nats-", len(servers))), n.size, n.memory)
		if err != nil {
			return servers, fmt.Errorf("%s: %w", n.name, err)
		}
		servers = append(servers, newKVServer(n.name, s))
	}
	for _, open := range []func(context.Context, *table) (*leaseServer, error){leaseRedis, r.leasePG} {
		why := &table{}
		s, err := open(ctx, why)
		if errors.Is(err, errLeftOut) {
			left.add("another", why.notes[0])
			continue
		}
		if err != nil {
			return servers, err
		}
		servers = append(servers, comparedServer(s))
	}
	return append(servers, memoryServer()), nil
}

// newKVServer returns a key-value engine with the store over it.
func newKVServer(name string, kv *natsServer) *kvServer {
	return &kvServer{cpuReporter: kv, name: name, kv: kv, close: kv.close, open: func(ctx context.Context) (store.Store, *atomic.Int64, func(), error) {
		engine, end, err := kv.engine(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		trips := &atomic.Int64{}
		st, err := kvstore.New(countedEngine{engine, trips}, kvstore.Options{Timeout: kvTimeout})
		return st, trips, end, err
	}}
}

// comparedServer returns a server with its store as the service uses it.
func comparedServer(s *leaseServer) *kvServer {
	return &kvServer{cpuReporter: s, name: s.name, close: s.close, open: func(ctx context.Context) (store.Store, *atomic.Int64, func(), error) {
		if err := s.fresh(ctx); err != nil {
			return nil, nil, nil, err
		}
		below, err := s.open()
		if err != nil {
			return nil, nil, nil, err
		}
		calls := &callCounter{Store: below}
		return coalesce.New(calls, coalesce.Options{Timeout: kvTimeout}), &calls.n, func() {}, nil
	}}
}

// noServer is the server of the store in memory.
type noServer struct{}

func (noServer) cpu(context.Context) (time.Duration, error) { return 0, nil }

// memoryServer returns the store in this process.
func memoryServer() *kvServer {
	return &kvServer{cpuReporter: noServer{}, name: "(memory)", close: func() {}, open: func(context.Context) (store.Store, *atomic.Int64, func(), error) {
		st, err := memstore.New(memstore.Options{})
		return st, &atomic.Int64{}, func() {}, err
	}}
}
