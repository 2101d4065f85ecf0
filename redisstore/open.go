package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/storeurl"
	"github.com/slidegate/slidegate/store"
)

// Open opens the store at a URL:
//
//	redis://USER:PASSWORD@HOST:PORT/DB            ?prefix=TEXT &dial_timeout=1s &write_timeout=3s &client_name=TEXT &protocol=2
//	redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT
//	redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB   &sentinel_user=TEXT &sentinel_password=TEXT
//	rediss://, rediss+cluster://, rediss+sentinel://   the same over TLS; &server_name=HOST &skip_verify=true
//
// Everything but the host is optional. In a user or password, the characters / ? # @ and % are percent-encoded.
//
// A server that is down is not an error: the store connects in the background, and until then requests fail. An invalid URL is an
// error, and so is a server that refuses the user, the password or the database at the first attempt.
func Open(ctx context.Context, url string) (store.Connection, error) {
	return connect.Open(ctx, driverOf, url)
}

func init() {
	connect.Register(driverOf, "redis", "redis+cluster", "redis+sentinel", "rediss", "rediss+cluster", "rediss+sentinel")
}

// driverOf returns the driver of a URL.
func driverOf(url string) (*connect.Driver, error) {
	t, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redisstore: URL: %w", err)
	}
	offline, err := newStore(nil, t.cluster, t.store)
	if err != nil {
		return nil, fmt.Errorf("redisstore: URL: %w", storeurl.Errorf("prefix: %w", err))
	}
	return &connect.Driver{Offline: offline, Connect: t.connect}, nil
}

// options returns the options of a client whose connections end with ctx.
func (t *target) options(ctx context.Context) rueidis.ClientOption {
	opts := t.client
	// The context of a dial is that of the caller for whom the client happens to need a connection. Others wait for the same
	// connection, so the dial goes on without that caller.
	opts.DialCtxFn = func(_ context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, dialer, config)
		if err != nil {
			return nil, err
		}
		return storeurl.NewConn(ctx, conn), nil
	}
	return opts
}

// connect creates a client. From then on, the client reconnects automatically.
func (t *target) connect(ctx context.Context, _ *slog.Logger) (*connect.Link, error) {
	client, err := rueidis.NewClient(t.options(ctx))
	if err != nil {
		return nil, connectError(err)
	}
	st, err := New(client, t.store)
	if err != nil {
		client.Close()
		return nil, err
	}
	return &connect.Link{Store: st, Close: client.Close, Warnings: st.Warnings}, nil
}

func dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config == nil {
		return dialer.DialContext(ctx, "tcp", addr)
	}
	secure := tls.Dialer{NetDialer: dialer, Config: config}
	return secure.DialContext(ctx, "tcp", addr)
}

// connectError returns the error of an attempt to connect. It does not contain the arguments that a server repeats in its error about
// an unknown command: those of AUTH and HELLO contain the password. Nor does it contain what the client adds about some commands.
func connectError(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if text, _, _ = strings.Cut(text, ", with args"); text != err.Error() {
		return store.Fault(errors.New(text), marksOf(err)...)
	}
	return fault(err)
}
