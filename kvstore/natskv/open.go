package natskv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/natsdriver"
	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/store"
)

// Open opens the store in a bucket, which it creates if it does not exist, at a URL:
//
//	nats://USER:PASSWORD@HOST:PORT,HOST:PORT      ?bucket=TEXT &replicas=N &storage=memory &prefix=TEXT &timeout=1s &credentials=FILE
//	nats://TOKEN@HOST:PORT                        the same, with a token
//	tls://USER:PASSWORD@HOST:PORT                 the same over TLS; &ca=FILE &cert=FILE &key=FILE &skip_verify=true
//
// Everything but the host is optional. In a user or password, the characters / ? # @ and % are percent-encoded. The timeout is that of
// kvstore.Options.
//
// Servers that are down, or have no JetStream yet, are not an error: the store connects in the background, and until then requests fail.
// An invalid URL is an error, and so are servers that refuse the user, the password or the account at the first attempt, and a bucket
// that cannot keep counts.
func Open(ctx context.Context, url string) (store.Connection, error) {
	return connect.Open(ctx, driverOf, url)
}

func init() {
	connect.Register(driverOf, "nats", "tls")
	natsdriver.New = func(query url.Values, dial func() (net.Conn, error)) (*connect.Driver, error) {
		return newDriver(query, func(_ context.Context, options []nats.Option) (*nats.Conn, error) {
			return nats.Connect("", append(options, nats.InProcessServer(inProcess(dial)))...)
		})
	}
}

// inProcess connects to a server in this process.
type inProcess func() (net.Conn, error)

// InProcessConn returns a new connection.
func (dial inProcess) InProcessConn() (net.Conn, error) { return dial() }

// driverOf returns the driver of a URL.
func driverOf(url string) (*connect.Driver, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("natskv: URL: %w", err)
	}
	return newDriver(t.query, t.dial)
}

// newDriver returns a driver for a bucket behind connections that dial makes. The query has the bucketParameters of a URL. The options
// that dial receives are those of a connection that never gives up.
func newDriver(query url.Values, dial func(ctx context.Context, options []nats.Option) (*nats.Conn, error)) (*connect.Driver, error) {
	bucket, opts, err := readBucket(query)
	if err != nil {
		return nil, fmt.Errorf("natskv: URL: %w", err)
	}
	st, err := kvstore.New(offline{}, opts)
	if err != nil {
		return nil, fmt.Errorf("natskv: URL: %w", storeurl.Errorf("prefix: use up to %d letters, digits and -", maxPrefix))
	}
	return &connect.Driver{Offline: st, Connect: func(ctx context.Context, log *slog.Logger) (*connect.Link, error) {
		conn, err := dial(ctx, connOptions())
		if err != nil {
			return nil, connectError(err)
		}
		link, err := openLink(ctx, conn, log, bucket, opts)
		if err != nil {
			conn.Close()
			return nil, connectError(err)
		}
		return link, nil
	}}, nil
}

// traits are the traits of an Engine that do not depend on the server.
var traits = kvstore.Traits{Name: "nats", MaxName: 128, ServerClock: true}

// offline is an engine without a server, for a store of which only Check and Traits are called.
type offline struct{ kvstore.Engine }

func (offline) Traits() kvstore.Traits { return traits }

const (
	maxPrefix   = 95              // what a hash and - leave of a name
	dialTimeout = time.Second     // per attempt and server; decisions do not wait for it
	openTimeout = 2 * time.Second // for opening the bucket
)

// connOptions returns the options of a connection that reconnects whenever necessary.
func connOptions() []nats.Option {
	return []nats.Option{
		nats.Name("slidegate"), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond), nats.Timeout(dialTimeout),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), // a silent server is abandoned after 15 seconds
		nats.ReconnectBufSize(-1),   // fail immediately instead of buffering
		nats.IgnoreAuthErrorAbort(), // a password may be changed while the server restarts
	}
}

func openLink(ctx context.Context, conn *nats.Conn, log *slog.Logger, bucket Options, opts kvstore.Options) (*connect.Link, error) {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	opening, fail := context.WithCancelCause(opening)
	defer fail(nil)
	// The server does not answer a request without permission. It reports that separately. The client's own handler writes to standard
	// error.
	conn.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		log.Debug("nats: connection", slog.Any("error", err))
		if errors.Is(err, nats.ErrPermissionViolation) {
			fail(err)
		}
	})
	engine, err := New(opening, conn, bucket)
	if err != nil {
		if why := context.Cause(opening); errors.Is(why, nats.ErrPermissionViolation) {
			err = why
		}
		return nil, err
	}
	st, err := kvstore.New(engine, opts)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return &connect.Link{Store: st, Close: func() {
		engine.Close()
		conn.Close()
	}}, nil
}

// connectError returns the error of an attempt to connect, with its probable cause.
func connectError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: JetStream does not answer: is it enabled (nats-server -js), and is most of its cluster up?", err)
	}
	return fault(err, true)
}

// dial connects to one of the servers.
func (t *target) dial(ctx context.Context, options []nats.Option) (*nats.Conn, error) {
	d := &dialer{ctx: ctx}
	options = append(append(options, t.options...), nats.SetCustomDialer(d))
	conn, err := nats.Connect(strings.Join(t.servers, ","), options...)
	if why := d.lastErr.Load(); why != nil && errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w: %w", err, *why)
	}
	return conn, err
}

// dialer dials until ctx ends, and then closes its connections, so that closing the store waits for no server. It is safe for concurrent
// use.
type dialer struct {
	ctx     context.Context
	lastErr atomic.Pointer[error] // the error of the last attempt, which the client does not return
}

// Dial connects to a server.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network, address)
	if err != nil {
		d.lastErr.Store(&err)
		return nil, err
	}
	return storeurl.NewConn(d.ctx, conn), nil
}
