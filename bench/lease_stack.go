package main

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/slidegate/slidegate/internal/layer/coalesce"
	"github.com/slidegate/slidegate/internal/layer/lease"
	"github.com/slidegate/slidegate/pgstore"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/store"
	"github.com/slidegate/slidegate/test/pgtest"
)

// leaseServer is a server under the layers that are compared.
type leaseServer struct {
	cpuReporter
	name  string
	fresh func(context.Context) error // empties the server if possible, and makes new clients
	open  func() (store.Store, error) // the store, over the newest clients
	close func()
}

// errLeftOut means that a server is missing, which is not a failure.
var errLeftOut = errors.New("left out")

// leaseRedis starts Redis for the scenarios of leases. If it is missing, it adds a note and returns errLeftOut.
func leaseRedis(ctx context.Context, t *table) (*leaseServer, error) {
	server, err := openRedis(ctx)
	if errors.Is(err, errNoRedis) {
		t.note("Left out: %v.", err)
		return nil, errLeftOut
	}
	if err != nil {
		return nil, err
	}
	return &leaseServer{
		cpuReporter: server, name: "Redis", close: server.close,
		fresh: func(ctx context.Context) error { return errors.Join(server.empty(ctx), server.connect()) },
		open:  func() (store.Store, error) { return redisstore.New(server.rueidis, redisstore.Options{}) },
	}, nil
}

// leasePG starts PostgreSQL for the scenarios of leases. If it is missing, it adds a note and returns errLeftOut.
func (r *run) leasePG(ctx context.Context, t *table) (*leaseServer, error) {
	server, err := openPG(ctx, r.conns)
	if errors.Is(err, pgtest.ErrNoServer) {
		t.note("Left out: postgres is missing, and %s is not set. Install the package postgresql.", pgURLEnv)
		return nil, errLeftOut
	}
	if err != nil {
		return nil, err
	}
	return &leaseServer{
		cpuReporter: server, name: "PostgreSQL", close: server.close,
		fresh: func(context.Context) error { return nil },
		open:  func() (store.Store, error) { return pgstore.New(server.pool, slidegateOptions(true)) },
	}, nil
}

// leaseStack is the stack of layers of one process: coalesce, and leases over that.
type leaseStack struct {
	top    store.Store
	calls  *callCounter
	leases *lease.Store // nil without
}

func (s *leaseServer) stack(leased bool) (*leaseStack, error) {
	below, err := s.open()
	if err != nil {
		return nil, err
	}
	stack := &leaseStack{calls: &callCounter{Store: below}}
	stack.top = coalesce.New(stack.calls, coalesce.Options{})
	if leased {
		stack.leases = lease.New(stack.top, lease.Options{})
		stack.top = stack.leases
	}
	return stack, nil
}

// close refunds the leases.
func (s *leaseStack) close(ctx context.Context) error {
	if s.leases == nil {
		return nil
	}
	return s.leases.Close(ctx)
}

// stacks opens the stacks of several processes.
func (s *leaseServer) stacks(n int) ([]*leaseStack, error) {
	var all []*leaseStack
	for range n {
		stack, err := s.stack(true)
		if err != nil {
			return nil, err
		}
		all = append(all, stack)
	}
	return all, nil
}

// closeStacks closes all of them.
func closeStacks(ctx context.Context, all []*leaseStack) (err error) {
	for _, s := range all {
		err = errors.Join(err, s.close(ctx))
	}
	return err
}

// callCounter is a layer that counts the calls to the server.
type callCounter struct {
	store.Store
	n atomic.Int64
}

// Apply counts a call and makes it.
func (c *callCounter) Apply(ctx context.Context, batch []store.Request) error {
	c.n.Add(1)
	return c.Store.Apply(ctx, batch)
}

// Unwrap returns the store below.
func (c *callCounter) Unwrap() store.Store { return c.Store }
