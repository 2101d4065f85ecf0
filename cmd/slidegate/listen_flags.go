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

// listenFlags configure how listeners are opened and closed, so that clients do not notice a restart.
type listenFlags struct {
	ReusePort  bool          `name:"reuse-port" help:"Share the ports with other processes that also set this flag, so that a new process can start before the old one ends." group:"Listeners"`
	SocketMode string        `name:"socket-mode" placeholder:"0660" help:"Permissions of Unix sockets, in octal as for chmod. (default: 0660, the owner and the group)" group:"Listeners"`
	DrainDelay time.Duration `option:"server.DrainDelay" name:"drain-delay" default:"0s" help:"How long listeners stay open at shutdown, while /readyz fails and responses close their connections; set it to the time load balancers take to notice." group:"Running"`
}

// fill sets the options of a server from the flags and the sockets that systemd passed.
func (f *listenFlags) fill(o *server.Options) (err error) {
	o.ReusePort, o.DrainDelay = f.ReusePort, f.DrainDelay
	if o.SocketMode, err = socketMode(f.SocketMode); err != nil {
		return err
	}
	o.Sockets, err = sockets(o.Proxy != "")
	return err
}

// sockets returns the sockets that systemd passed, by the name of their listener. The proxy's listener is called http by systemd, as
// its flag is.
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

// socketMode parses the mode of Unix sockets; it returns 0 for an empty text.
func socketMode(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, inFlag("--socket-mode", fmt.Errorf("invalid file mode %q; write an octal mode such as 0660, 0600 or 0666", text))
	}
	return fs.FileMode(mode), nil
}
