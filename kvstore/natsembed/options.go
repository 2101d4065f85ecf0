package natsembed

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Options are the choices of a Server. Dir is required. With a Dir alone, it is a single server.
type Options struct {
	// Dir is the folder that keeps everything. It is created if it is not there, and belongs to one server at a time.
	Dir string
	// Name is the server's name in its cluster, unique there. If it is empty, one is made up. Either way it is kept in Dir: a folder
	// belongs to the name it was first used with.
	Name string
	// Route is the address, host:port, on which the server listens for the other servers of its cluster; empty without a cluster.
	Route string
	// Peers are the routes of all servers of the cluster, host:port each, as they are reached from here, and the same on all of them. This server's own
	// may be left out, unless Route listens on all interfaces. How many there are decides how many are a majority: do not
	// leave out servers that are to be started later.
	Peers []string
	// Secret proves to the other servers that this one belongs to the cluster; the same for all of them. It is required unless Route
	// is on loopback.
	Secret string
	// SyncAlways syncs every write to the disk before it is acknowledged, so that a loss of power loses nothing. Writes
	// take as long as the disk does, often some milliseconds.
	SyncAlways bool
	// MaxStore is how many bytes of messages the server keeps on disk at most; 0 means 4 GiB. Writes beyond it fail. Files can take more
	// than that until the server has compacted them.
	MaxStore int64
	// MaxMemory is how many bytes buckets in memory may take; 0 means 256 MiB. Writes beyond it fail.
	MaxMemory int64
	// Logger receives the server's log: errors and warnings as such, everything else at debug level. Nil discards it.
	Logger *slog.Logger
}

const (
	defaultMaxStore  = 4 << 30
	defaultMaxMemory = 256 << 20
)

func (o *Options) check() error {
	switch {
	case o.Dir == "":
		return errors.New("natsembed: dir: must not be empty; name a folder that survives restarts")
	case strings.ContainsAny(o.Name, " \t\r\n.*>/"):
		return fmt.Errorf("natsembed: name: %q: leave out spaces, dots, slashes, * and >", o.Name)
	case o.MaxStore < 0:
		return fmt.Errorf("natsembed: max store: must not be negative, it is %d; 0 means %d", o.MaxStore, int64(defaultMaxStore))
	case o.MaxMemory < 0:
		return fmt.Errorf("natsembed: max memory: must not be negative, it is %d; 0 means %d", o.MaxMemory, defaultMaxMemory)
	case o.Route == "" && len(o.Peers) > 0:
		return errors.New("natsembed: route: must not be empty with peers; name the host:port that the peers reach this server at")
	case o.Route != "" && len(o.Peers) == 0:
		return errors.New("natsembed: peers: must not be empty with a route; name the routes of all servers of the cluster")
	case o.Route == "":
		return nil
	}
	return o.checkRoutes()
}

func (o *Options) checkRoutes() error {
	host, _, err := splitAddress(o.Route)
	if err != nil {
		return fmt.Errorf("natsembed: route: %w", err)
	}
	if o.Secret == "" && !onLoopback(host) {
		return fmt.Errorf("natsembed: secret: must not be empty, since others than this machine can reach the route %s; give all servers the same one", o.Route)
	}
	for i, peer := range o.Peers {
		if _, _, err := splitAddress(peer); err != nil {
			return fmt.Errorf("natsembed: peers: %w", err)
		}
		if slices.Contains(o.Peers[:i], peer) {
			return fmt.Errorf("natsembed: peers: %s is there twice; name every server once", peer)
		}
	}
	return nil
}

// members returns the routes of all servers of the cluster, this one included: their number decides what a majority is.
func (o *Options) members() ([]string, error) {
	host, port, err := splitAddress(o.Route)
	if err != nil {
		return nil, err
	}
	own := func(peer string) bool {
		peerHost, peerPort, _ := splitAddress(peer)
		return peer == o.Route || peerPort == port && samePlace(host, peerHost)
	}
	members := slices.Clone(o.Peers)
	if !slices.ContainsFunc(members, own) {
		if onAll(host) {
			return nil, fmt.Errorf("natsembed: peers: none of them is this server, which listens on %s; add the address that the others reach it at", o.Route)
		}
		members = append(members, o.Route)
	}
	if len(members) < 2 {
		return nil, errors.New("natsembed: peers: only this server is there; name the others, or leave out route and peers for a single server")
	}
	return members, nil
}

// samePlace reports whether a peer's host is the one that this server listens on.
func samePlace(own, peer string) bool {
	theirs, err := net.LookupIP(peer)
	if err != nil {
		return false // it may not have started yet
	}
	var ours []net.IP
	if onAll(own) {
		addresses, _ := net.InterfaceAddrs()
		for _, a := range addresses {
			if network, ok := a.(*net.IPNet); ok {
				ours = append(ours, network.IP)
			}
		}
	} else {
		ours, _ = net.LookupIP(own)
	}
	return slices.ContainsFunc(theirs, func(ip net.IP) bool { return slices.ContainsFunc(ours, ip.Equal) })
}

// splitAddress returns the two parts of a host:port.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%q is not host:port; write it as 10.0.0.1:6222", address)
	}
	return host, port, nil
}

func onAll(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
