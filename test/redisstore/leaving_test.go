package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/redisstore"
	"github.com/slidegate/slidegate/test/kit"
	"github.com/slidegate/slidegate/test/redistest"
)

// A caller that leaves while a connection is made, which others wait for, fails nobody else, and is not charged.
func TestLeavingCallerFailsNoOther(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly no")
	killer := server.Client(t)
	for name, leave := range map[string]struct {
		timeout time.Duration // of the caller that leaves
		want    error
	}{"canceled": {time.Hour, context.Canceled}, "deadline": {50 * time.Millisecond, context.DeadlineExceeded}} {
		dials, release := make(chan context.Context), make(chan struct{})
		limiter := kit.Must(slidegate.New(newStore(t, slowToConnect(t, server, dials, release), redisstore.Options{}), slidegate.PerHour(100)))(t)
		if _, err := limiter.Allow(t.Context(), name); err != nil { // the script is loaded now
			t.Fatal(err)
		}
		do(t, killer, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		dial, left := startDialing(t, limiter, leave.timeout, dials)
		var wg sync.WaitGroup
		const others = 20
		for range others {
			wg.Go(func() {
				if _, err := limiter.Allow(t.Context(), name); err != nil {
					t.Errorf("%s: another caller: got %v", name, err)
				}
			})
		}
		if leave.want == context.Canceled {
			left.cancel()
		}
		if err := <-left.err; !errors.Is(err, leave.want) {
			t.Errorf("%s: got %v, want %v", name, err, leave.want)
		}
		select {
		case <-dial.Done():
			t.Errorf("%s: the dial ended with its first caller", name)
		default:
		}
		close(release)
		wg.Wait()
		d := kit.Must(limiter.Peek(t.Context(), name, 1))(t)
		if d.Remaining != 100-1-others {
			t.Errorf("%s: got %d remaining, want %d", name, d.Remaining, 100-1-others)
		}
		if d := kit.Must(limiter.Peek(t.Context(), leaver, 1))(t); d.Remaining != 100 {
			t.Errorf("%s: got %d remaining for the caller that left, want 100", name, d.Remaining)
		}
	}
}

// slowToConnect returns a client whose connections after the first one are reported to dials, and wait for release.
func slowToConnect(t *testing.T, server *redistest.Node, dials chan<- context.Context, release <-chan struct{}) rueidis.Client {
	t.Helper()
	opts := server.Options()
	opts.PipelineMultiplex = -1 // one connection
	var connected atomic.Bool
	opts.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if connected.Swap(true) {
			select {
			case dials <- ctx:
			case <-release:
			}
			select {
			case <-release:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return dialer.DialContext(ctx, "tcp", addr)
	}
	return redistest.Client(t, opts)
}

const leaver = "leaver" // the key of the caller that leaves

// caller is a caller that waits for a connection.
type caller struct {
	cancel context.CancelFunc
	err    chan error
}

// startDialing makes requests until one has begun to dial, and returns the context of the dial.
func startDialing(t *testing.T, limiter *slidegate.Limiter, timeout time.Duration, dials <-chan context.Context) (context.Context, caller) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		t.Cleanup(cancel)
		c := caller{cancel, make(chan error, 1)}
		go func() {
			_, err := limiter.Allow(ctx, leaver)
			c.err <- err
		}()
		select {
		case dial := <-dials:
			return dial, c
		case err := <-c.err: // the old connection was not known to be broken
			if err == nil {
				t.Fatal("got an answer from a connection that the server has closed")
			}
		}
	}
}
