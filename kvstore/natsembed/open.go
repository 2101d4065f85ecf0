package natsembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/internal/connect"
	"github.com/slidegate/slidegate/internal/natsdriver"
	_ "github.com/slidegate/slidegate/kvstore/natskv" // sets natsdriver.New
	"github.com/slidegate/slidegate/store"
)

// Open starts a server in this process and opens the store in one of its buckets. The server belongs to the Connection, and stops when that
// is closed. The URL is
//
//	nats:embedded?dir=FOLDER                      &bucket=TEXT &storage=memory &prefix=TEXT &timeout=1s &sync=always
//	                                              &route=HOST:PORT &cluster=HOST:PORT,HOST:PORT,HOST:PORT &secret=TEXT &name=TEXT
//	                                              &replicas=N, which is the number of processes in the cluster, up to 3
//
// Only dir is required; the parameters in the second line are for a member of a cluster: see Options. A cluster without a majority is not
// an error: the store connects in the background, and until then requests fail. An invalid URL is an error, and so are a folder without
// permission and a bucket that cannot keep counts.
func Open(ctx context.Context, url string) (store.Connection, error) {
	return connect.Open(ctx, driverOf, url)
}

func init() { connect.Register(driverOf, "nats:embedded") }

// driverOf returns the driver of a URL.
func driverOf(url string) (*connect.Driver, error) {
	opts, bucket, err := parseURL(url)
	if err != nil {
		return nil, fmt.Errorf("natsembed: URL: %w", err)
	}
	r := &runner{opts: opts}
	driver, err := natsdriver.New(bucket, func() (net.Conn, error) { return current{r.server}.InProcessConn() })
	if err != nil {
		return nil, err
	}
	dial := driver.Connect
	driver.Connect = func(ctx context.Context, log *slog.Logger) (*connect.Link, error) {
		if err := r.start(log); err != nil {
			return nil, err
		}
		link, err := dial(ctx, log)
		if opts.Route != "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)) {
			err = errors.New("the cluster has no majority yet: start more of its processes, and check that they can reach each other's routes")
		}
		return link, err
	}
	driver.Close = r.close
	return driver, nil
}

// runner runs the server of a Connection, from the first attempt to connect until the end. Its methods are not called concurrently.
type runner struct {
	opts   Options
	server *Server
}

// start starts the server if it is not running.
func (r *runner) start(log *slog.Logger) (err error) {
	if r.server != nil {
		return nil
	}
	opts := r.opts
	opts.Logger = slog.New(newSparseHandler(log.Handler()))
	r.server, err = Start(opts)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // trying again does not help
		return store.Fault(err, store.ErrRefused, store.ErrDown, store.ErrUndone)
	}
	return err
}

// close stops the server, if it was started.
func (r *runner) close() {
	if r.server != nil {
		r.server.Close()
	}
}
