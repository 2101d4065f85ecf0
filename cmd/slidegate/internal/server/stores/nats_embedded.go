//go:build !no_nats_server

package stores

import (
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/kvstore/natsembed"
)

// embedded is a NATS server in this process. It is started by the first attempt to connect, and stops after everything that uses it.
type embedded struct {
	options natsembed.Options

	mu     sync.Mutex
	server *natsembed.Server
}

const embeddedForm = "nats:embedded?dir=FOLDER, and for one of a cluster &route=HOST:PORT&cluster=HOST:PORT,HOST:PORT,HOST:PORT&secret=TEXT"

// maxReplicas is the default number of processes in a cluster that keep the bucket.
const maxReplicas = 3

// parseEmbedded parses the URL of a server in this process.
func parseEmbedded(text string, opts *Options) (*natsTarget, error) {
	_, rest, _ := strings.Cut(text, ":")
	kind, query, _ := strings.Cut(rest, "?")
	if kind != "embedded" {
		return nil, invalid("URL", "write nats://HOST:PORT for a remote server, or %s", embeddedForm)
	}
	values, err := parseQuery(query, append(slices.Clone(natsParameters), "dir", "route", "cluster", "secret", "name", "sync")...)
	if err != nil {
		return nil, err
	}
	e := &embedded{options: natsembed.Options{
		Dir: values.Get("dir"), Name: values.Get("name"), Route: values.Get("route"), Secret: values.Get("secret"),
		Logger: slog.New(newSparseHandler(opts.Logger.Handler())).With(slog.String("store", "nats")),
	}}
	if list := values.Get("cluster"); list != "" {
		e.options.Peers = strings.Split(list, ",")
	}
	switch sync := values.Get("sync"); sync {
	case "", "later":
	case "always":
		e.options.SyncAlways = true
	default:
		return nil, invalid("URL", "sync: must be always or later, not %q", sync)
	}
	if err := e.check(); err != nil {
		return nil, err
	}
	t := &natsTarget{embedded: e}
	if err := t.readBucket(values.Get, opts); err != nil {
		return nil, err
	}
	size := e.size()
	if t.bucket.Replicas == 0 {
		t.bucket.Replicas = min(size, maxReplicas)
	}
	if t.bucket.Replicas > size {
		return nil, invalid("URL", "replicas: is %d, but the cluster has %d processes; list all of them in cluster=", t.bucket.Replicas, size)
	}
	return t, nil
}

// check returns an error about the options, named as in the URL. No error contains the secret.
func (e *embedded) check() error {
	o := &e.options
	switch {
	case o.Dir == "":
		return invalid("URL", "dir: is missing; name the folder that keeps the counts, as in %s", embeddedForm)
	case o.Route == "" && len(o.Peers) > 0:
		return invalid("URL", "route: is missing; write the HOST:PORT at which the rest of the cluster reaches this process")
	case o.Route != "" && len(o.Peers) == 0:
		return invalid("URL", "cluster: is missing; list the routes of all processes of the cluster, separated by commas")
	case o.Route == "" && o.Secret != "":
		return invalid("URL", "secret: requires a cluster; add route= and cluster=, or remove it")
	}
	if o.Route == "" {
		return nil
	}
	for _, address := range append([]string{o.Route}, o.Peers...) {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" && address != o.Route {
			return invalid("URL", "route and cluster: each address must be HOST:PORT, such as 10.0.0.1:6222")
		}
	}
	if host, _, _ := net.SplitHostPort(o.Route); o.Secret == "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return invalid("URL", "secret: is missing, and other machines can reach the route; give all processes of the cluster the same secret, "+
			"in a file as &secret=${file:/run/secrets/NAME}")
	}
	if e.size() < 2 {
		return invalid("URL", "cluster: contains only this process; add the others, or remove route= and cluster=")
	}
	return nil
}

// size returns the number of processes in the cluster, including this one, which the list may omit.
func (e *embedded) size() int {
	o := &e.options
	host, _, _ := net.SplitHostPort(o.Route)
	if o.Route == "" {
		return 1
	}
	everywhere := host == "" || net.ParseIP(host).IsUnspecified() // the list has it under another address
	if everywhere || slices.Contains(o.Peers, o.Route) {
		return len(o.Peers)
	}
	return len(o.Peers) + 1
}

// clustered reports whether the server is part of a cluster.
func (e *embedded) clustered() bool { return e.options.Route != "" }

// connect connects to the server, and starts it if it is not running.
func (e *embedded) connect(options ...nats.Option) (*nats.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		started, err := natsembed.Start(e.options)
		if err != nil {
			return nil, err
		}
		e.server = started
	}
	return e.server.Connect(options...)
}

// close stops the server, if it was started.
func (e *embedded) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		e.server.Close()
	}
	return nil
}
