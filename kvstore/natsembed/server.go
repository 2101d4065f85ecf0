package natsembed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// clusterName is the name of every cluster of this package. NATS rejects servers of a cluster with another name.
const clusterName = "slidegate"

// Server is a NATS server in this process. It is safe for concurrent use. The zero value is not usable; call Start.
type Server struct {
	opts    Options
	members []string // the routes of the cluster; nil if there is none
	folder  *folder

	mu   sync.Mutex
	nats *server.Server // nil while a single server cannot write to its folder
	log  *log           // of nats

	close   sync.Once
	closing chan struct{}
	keeper  sync.WaitGroup
}

// Start starts a server and returns when it accepts connections. It does not wait for the other servers of its cluster: until a
// majority has joined, JetStream requests fail.
func Start(opts Options) (*Server, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("natsembed: %w", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, closing: make(chan struct{})}
	var err error
	if opts.Route != "" {
		if s.members, err = opts.members(); err != nil {
			return nil, fmt.Errorf("natsembed: %w", err)
		}
	}
	if s.folder, err = openFolder(opts.Dir, opts.Name, s.clustered()); err != nil {
		return nil, err
	}
	if err := s.run(true, false); err != nil {
		s.folder.release()
		return nil, err
	}
	s.keeper.Go(s.keepWritable)
	return s, nil
}

func (s *Server) clustered() bool { return len(s.members) > 0 }

// settings returns the settings of a single server.
func (o *Options) settings(name string) *server.Options {
	settings := &server.Options{
		ServerName: name, DontListen: true, NoSigs: true, JetStream: true, StoreDir: o.Dir, SyncAlways: o.SyncAlways,
		JetStreamMaxStore: o.MaxStore, JetStreamMaxMemory: o.MaxMemory,
	}
	if settings.JetStreamMaxStore == 0 {
		settings.JetStreamMaxStore = defaultMaxStore
	}
	if settings.JetStreamMaxMemory == 0 {
		settings.JetStreamMaxMemory = defaultMaxMemory
	}
	return settings
}

// noPort is a port that cannot be listened on.
const noPort = 1 << 16

// join changes the settings to those of a member of a cluster. NATS opens its route after the port for clients, and does not open
// it at all with DontListen. So join sets a client port that cannot be listened on: that fails and opens nothing.
func (o *Options) join(settings *server.Options, members []string) {
	settings.DontListen, settings.Host, settings.Port = false, "127.0.0.1", noPort
	host, port, _ := splitAddress(o.Route) // checked by check
	settings.Cluster = server.ClusterOpts{Name: clusterName, Host: host, Port: port, NoAdvertise: true}
	if host == "" {
		settings.Cluster.Host = "0.0.0.0"
	}
	var user *url.Userinfo
	if o.Secret != "" {
		sum := sha256.Sum256([]byte("slidegate route " + o.Secret)) // hashed, because NATS would take a secret like $2a$... for a bcrypt hash
		settings.Cluster.Username, settings.Cluster.Password = clusterName, hex.EncodeToString(sum[:])
		user = url.UserPassword(settings.Cluster.Username, settings.Cluster.Password)
	}
	for _, member := range members {
		settings.Routes = append(settings.Routes, &url.URL{Scheme: "nats-route", Host: member, User: user})
	}
}

// run starts a NATS server and waits until it is ready. Without JetStream it only passes requests on to the rest of its cluster.
// A quiet server logs at debug level.
func (s *Server) run(jetStream, quiet bool) error {
	settings := s.opts.settings(s.folder.Name)
	settings.JetStream = jetStream
	if s.clustered() {
		s.opts.join(settings, s.members)
	}
	started, err := server.NewServer(settings)
	if err != nil {
		return fmt.Errorf("natsembed: %w", err)
	}
	log := newLog(s.opts.Logger, s.clustered())
	log.quiet.Store(quiet)
	started.SetLoggerV2(log, false, false, false)
	started.Start()
	if err := log.waitReady(started, s.clustered()); err != nil {
		started.Shutdown()
		started.WaitForShutdown()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nats, s.log = started, log
	return nil
}

// stop stops the NATS server, if it runs, and waits until it has stopped.
func (s *Server) stop() {
	s.mu.Lock()
	running := s.nats
	s.nats = nil
	s.mu.Unlock()
	if running != nil {
		running.Shutdown()
		running.WaitForShutdown()
	}
}

// startTimeout is how long a server may take to open its route.
const startTimeout = 10 * time.Second

// waitReady waits until the route is open, if the server has one, or the server has failed.
func (l *log) waitReady(s *server.Server, route bool) error {
	late := time.After(startTimeout)
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case err := <-l.fatal:
			return fmt.Errorf("natsembed: %w", err)
		case <-late:
			return errors.New("natsembed: the server did not start in time")
		default:
		}
		if !route || s.ClusterAddr() != nil {
			return nil
		}
		<-ticks.C
	}
}

// Connect returns a connection to the server that uses no network. Unless opts change that, it reconnects whenever necessary, and
// requests that cannot be sent immediately fail. The caller must close it before the server.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{
		nats.InProcessServer(current{s}), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { // the client's own handler writes to standard error
			s.opts.Logger.Debug("nats: connection", slog.Any("error", err))
		}),
	}, opts...)
	conn, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("natsembed: %w", err)
	}
	return conn, nil
}

// current connects to the NATS server that runs now, so that connections survive its replacement.
type current struct{ *Server }

// InProcessConn returns a new connection.
func (c current) InProcessConn() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nats == nil {
		return nil, errNotWritable
	}
	return c.nats.InProcessConn()
}

// Name returns the server's name in its cluster.
func (s *Server) Name() string { return s.folder.Name }

// Close stops the server: it hands over its leaderships, flushes its files, and waits until that is done. Later calls do nothing.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closing)
		s.keeper.Wait()
		s.stop()
		s.folder.release()
	})
}
