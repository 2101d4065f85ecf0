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

// Options configures a Server. Dir is required; with nothing else set, the server is not part of a cluster.
type Options struct {
	// Dir is the folder for all of the server's files. It is created if it does not exist. Only one server can use it at a time.
	Dir string
	// Name is the server's name, unique in its cluster. If it is empty, a random one is used. Either way it is saved in Dir, and the
	// folder can only be used with that name from then on.
	Name string
	// Route is the address, host:port, on which the server listens for the other members of its cluster. It is empty without a cluster.
	Route string
	// Cluster has the routes of all members of the cluster, each a host:port. The route of this server may be left out, unless it
	// listens on all interfaces. Their number determines what a majority is, so list every member, including those that will be
	// started later.
	Cluster []string
	// Secret authenticates the members of the cluster to one another; all members have the same secret. It is required unless Route
	// is on loopback.
	Secret string
	// SyncAlways syncs every write to disk before it is acknowledged, so that a power failure loses nothing. A write then takes as
	// long as the disk does, often several milliseconds.
	SyncAlways bool
	// MaxStore limits the bytes of messages on disk; 0 means 4 GiB. Writes beyond it fail. The files can be larger until the server
	// compacts them.
	MaxStore int64
	// MaxMemory limits the bytes of buckets in memory; 0 means 256 MiB. Writes beyond it fail.
	MaxMemory int64
	// Logger receives the server's log: errors and warnings as such, everything else at debug level; nil discards it.
	Logger *slog.Logger
}

const (
	defaultMaxStore  = 4 << 30
	defaultMaxMemory = 256 << 20
)

// check returns an error about the options, named as in a URL. No error contains the secret.
func (o *Options) check() error {
	switch {
	case o.Dir == "":
		return fmt.Errorf("dir: is missing; name the folder that keeps the counts, as in %s", urlForm)
	case strings.ContainsAny(o.Name, " \t\r\n.*>/"):
		return fmt.Errorf("name: %q is invalid; leave out spaces, dots, slashes, * and >", o.Name)
	case o.MaxStore < 0:
		return fmt.Errorf("max store: must not be negative, got %d; 0 means %d", o.MaxStore, int64(defaultMaxStore))
	case o.MaxMemory < 0:
		return fmt.Errorf("max memory: must not be negative, got %d; 0 means %d", o.MaxMemory, defaultMaxMemory)
	case o.Route == "" && len(o.Cluster) > 0:
		return errors.New("route: is missing; write the HOST:PORT at which the rest of the cluster reaches this process")
	case o.Route != "" && len(o.Cluster) == 0:
		return errors.New("cluster: is missing; list the routes of all processes of the cluster")
	case o.Route == "" && o.Secret != "":
		return errors.New("secret: requires a cluster; add route and cluster, or remove it")
	case o.Route == "":
		return nil
	}
	return o.checkCluster()
}

func (o *Options) checkCluster() error {
	for i, address := range append([]string{o.Route}, o.Cluster...) {
		host, _, err := splitAddress(address)
		if err != nil || host == "" && i > 0 {
			return errors.New("route and cluster: each address must be HOST:PORT, such as 10.0.0.1:6222")
		}
		if i > 0 && slices.Contains(o.Cluster[:i-1], address) {
			return fmt.Errorf("cluster: %s is listed twice; list every process once", address)
		}
	}
	if host, _, _ := splitAddress(o.Route); o.Secret == "" && !isLoopback(host) {
		return errors.New("secret: is missing, and other machines can reach the route; give all processes of the cluster the same secret, " +
			"in a URL from a file as &secret=${file:/run/secrets/NAME}")
	}
	if o.size() < 2 {
		return errors.New("cluster: contains only this process; add the others, or remove route and cluster")
	}
	return nil
}

// size returns the number of processes in the cluster, including this one, which the list may omit. It resolves no names.
func (o *Options) size() int {
	if o.Route == "" {
		return 1
	}
	host, _, _ := splitAddress(o.Route)
	if isUnspecified(host) || slices.Contains(o.Cluster, o.Route) { // in the first case the list has it under another address
		return len(o.Cluster)
	}
	return len(o.Cluster) + 1
}

// members returns the routes of all servers of the cluster, including this one: their number determines what a majority is.
func (o *Options) members() ([]string, error) {
	host, port, err := splitAddress(o.Route)
	if err != nil {
		return nil, err
	}
	own := func(peer string) bool {
		peerHost, peerPort, _ := splitAddress(peer)
		return peer == o.Route || peerPort == port && sameHost(host, peerHost)
	}
	members := slices.Clone(o.Cluster)
	if !slices.ContainsFunc(members, own) {
		if isUnspecified(host) {
			return nil, fmt.Errorf("cluster: none of its addresses is this process, which listens on %s; add the address at which the others reach it", o.Route)
		}
		members = append(members, o.Route)
	}
	if len(members) < 2 {
		return nil, errors.New("cluster: contains only this process; add the others, or remove route and cluster")
	}
	return members, nil
}

// sameHost reports whether a peer's host is the one that this server listens on.
func sameHost(own, peer string) bool {
	theirs, err := net.LookupIP(peer)
	if err != nil {
		return false // it may not have started yet
	}
	var ours []net.IP
	if isUnspecified(own) {
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

// splitAddress splits a host:port.
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

func isUnspecified(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
