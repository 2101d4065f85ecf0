// Package goredis makes redisstore work over a go-redis client, which many services already have, so that they need no
// second connection. Batches of requests are pipelined; concurrent requests each use a connection of the client's pool,
// so put the layer coalesce over the store where there are many.
package goredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/slidegate/slidegate/redisstore"
)

// New returns a store over a go-redis client: a *redis.Client or a *redis.ClusterClient, which include those that fail
// over by Sentinel and all that redis.NewUniversalClient returns. The caller has to close the client. Whatever its
// MaxRetries, a decision is never sent twice.
//
// Every other type is an error. A *redis.Ring distributes keys over servers that do not know of each other, and sends a
// request over several keys to the server of the first one: the others would have a count on each server. A type that
// this package does not know may contain a Ring. Pass the client that it wraps and add behavior to that one with
// AddHook, or implement redisstore.Conn.
func New(client redis.UniversalClient, opts redisstore.Options) (*redisstore.Store, error) {
	switch client := client.(type) {
	case nil:
		return nil, errors.New("goredis: client: must not be nil; use redis.NewClient")
	case *redis.Client:
		return redisstore.NewWithConn(conn{client, false}, opts)
	case *redis.ClusterClient:
		return redisstore.NewWithConn(conn{client, true}, opts)
	case *redis.Ring:
		return nil, errors.New("goredis: client: must not be a redis.Ring, over which a limit would hold once per server; " +
			"use redis.NewClient with one server, or redis.NewClusterClient with a cluster")
	default:
		return nil, fmt.Errorf("goredis: client: a %T may distribute keys over several servers, over which a limit would hold once per server; "+
			"pass the *redis.Client or *redis.ClusterClient that it wraps", client)
	}
}

// conn is a redisstore.Conn.
type conn struct {
	client  redis.UniversalClient
	cluster bool
}

func (c conn) Cluster() bool { return c.cluster }

// Run sends calls in one pipeline.
func (c conn) Run(ctx context.Context, command, script string, calls []redisstore.Call) {
	pipe := c.client.Pipeline()
	sent := make([]noRetryCmd, len(calls))
	for i := range calls {
		sent[i] = newNoRetryCmd(ctx, command, script, &calls[i])
		_ = pipe.Process(ctx, sent[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range sent {
		calls[i].Reply, calls[i].Err = cmd.Text()
	}
}

// noRetryCmd is a command that go-redis does not send again when a connection breaks before the answer has come: it may have
// been carried out.
type noRetryCmd struct{ *redis.Cmd }

// NoRetry is called by go-redis.
func (noRetryCmd) NoRetry() bool { return true }

func newNoRetryCmd(ctx context.Context, command, script string, call *redisstore.Call) noRetryCmd {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, command, script, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	return noRetryCmd{cmd}
}
