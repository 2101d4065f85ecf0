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

// clusterName is that of every cluster of this package: servers of another one are turned away.
const clusterName = "slidegate"

// Server is a NATS server in this process. It is safe for concurrent use. The zero value is not usable; Start makes it.
type Server struct {
	nats   *server.Server
	folder *folder
	close  sync.Once
}

// Start starts a server and returns when it takes connections. It does not wait for the other servers of its cluster: until they are
// there, whatever asks for JetStream fails.
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

// settings returns those of a server alone.
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

// join makes the settings those of one of a cluster. NATS starts the routes when it has done with the port for clients, and not at
// all if it is told not to listen on one. So it is told to listen on one that cannot be, which fails and opens nothing.
func (o *Options) join(settings *server.Options, members []string) {
	settings.DontListen, settings.Host, settings.Port = false, "127.0.0.1", noPort
	host, port, _ := splitAddress(o.Route) // which was checked
	settings.Cluster = server.ClusterOpts{Name: clusterName, Host: host, Port: port, NoAdvertise: true}
	if host == "" {
		settings.Cluster.Host = "0.0.0.0"
	}
	var user *url.Userinfo
	if o.Secret != "" {
		sum := sha256.Sum256([]byte("slidegate route " + o.Secret)) // NATS would take a secret like $2a$... for a hash
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

// startWithin is how long a server may take to open its route.
const startWithin = 10 * time.Second

// waitReady waits until the route is open, if there is to be one, or the server has failed.
func (l *log) waitReady(s *server.Server, route bool) error {
	late := time.After(startWithin)
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

// Connect returns a connection to the server that uses no network. It connects again whenever it has to, and what cannot be sent at once
// fails, unless opts say otherwise. It is the caller's to close, before the server.
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

// Close ends the server: it hands over what it leads, writes what is not written, and waits until that is done. Later calls do nothing.
func (s *Server) Close() {
	s.close.Do(func() {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
		s.folder.release()
	})
}
