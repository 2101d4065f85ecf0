package natsembed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	nats   *server.Server
	folder *folder
	close  sync.Once
}

// Start starts a server and returns when it accepts connections. It does not wait for the other servers of its cluster: until a
// majority has joined, JetStream requests fail.
func Start(opts Options) (*Server, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	cluster := opts.Route != ""
	var members []string
	if cluster {
		var err error
		if members, err = opts.members(); err != nil {
			return nil, err
		}
	}
	folder, err := openFolder(opts.Dir, opts.Name, cluster)
	if err != nil {
		return nil, err
	}
	settings := opts.settings(folder.Name)
	if cluster {
		opts.join(settings, members)
	}
	s, err := run(settings, newLog(opts.Logger, cluster))
	if err != nil {
		folder.release()
		return nil, err
	}
	return &Server{nats: s, folder: folder}, nil
}

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

// run starts a server and waits until it is ready.
func run(settings *server.Options, log *log) (*server.Server, error) {
	s, err := server.NewServer(settings)
	if err != nil {
		return nil, fmt.Errorf("natsembed: %w", err)
	}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	if err := log.waitReady(s, settings.Cluster.Port != 0); err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, err
	}
	return s, nil
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
		nats.InProcessServer(s.nats), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectBufSize(-1),
	}, opts...)
	conn, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("natsembed: %w", err)
	}
	return conn, nil
}

// Name returns the server's name in its cluster.
func (s *Server) Name() string { return s.folder.Name }

// Close stops the server: it hands over its leaderships, flushes its files, and waits until that is done. Later calls do nothing.
func (s *Server) Close() {
	s.close.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.folder.release()
	})
}
