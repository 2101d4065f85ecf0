package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/systemd"
)

// listenFlags say how listeners are opened, and how they are closed, so that a restart goes unnoticed.
type listenFlags struct {
	ReusePort  bool          `name:"reuse-port" help:"Share the ports with another process that says so too, so that a new one can start before the old one ends." group:"Doors"`
	SocketMode string        `name:"socket-mode" placeholder:"0660" help:"Who may connect to Unix sockets, as chmod writes it. (default: 0660, the owner and the group)" group:"Doors"`
	DrainDelay time.Duration `option:"server.DrainDelay" name:"drain-delay" default:"0s" help:"How long doors stay open at the end, while /readyz says no and answers close their connections: as long as load balancers take to notice." group:"Running"`
}

// fill adds what the flags say to the options of a server, and the sockets that systemd passed.
func (f *listenFlags) fill(o *server.Options) (err error) {
	o.ReusePort, o.DrainDelay = f.ReusePort, f.DrainDelay
	if o.SocketMode, err = socketMode(f.SocketMode); err != nil {
		return err
	}
	o.Sockets, err = sockets(o.Proxy != "")
	return err
}

// sockets returns the sockets that systemd passed, by the name of their door. The door of a proxy has the name of its flag there.
func sockets(proxy bool) (map[string]net.Listener, error) {
	known := []string{"http", "grpc", "resp", "admin", "metrics"}
	if proxy {
		known = []string{"http", "admin", "metrics"}
	}
	passed, err := systemd.Listeners(known...)
	if err != nil {
		for _, socket := range passed {
			err = errors.Join(err, socket.Close())
		}
		return nil, err
	}
	if socket := passed["http"]; proxy && socket != nil {
		delete(passed, "http")
		passed["proxy"] = socket
	}
	return passed, nil
}

// socketMode reads the mode of Unix sockets; 0 if none is given.
func socketMode(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, inFlag("--socket-mode", fmt.Errorf("%q is not a mode of a file; write 0660, 0600 or 0666, say", text))
	}
	return fs.FileMode(mode), nil
}
