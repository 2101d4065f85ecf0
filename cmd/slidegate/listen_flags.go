package main

import (
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/systemd"
)

// listenFlags say how listeners are opened, and how they are closed, so that a restart goes unnoticed.
type listenFlags struct {
	ReusePort  bool          `name:"reuse-port" help:"Share the ports with another process that says so too, so that a new one can start before the old one ends." group:"Doors"`
	DrainDelay time.Duration `option:"server.DrainDelay proxy.DrainDelay" name:"drain-delay" default:"0s" help:"How long doors stay open at the end, while /readyz says no and answers close their connections: as long as load balancers take to notice." group:"Running"`
}

// options are for a listener that is not a Unix socket.
func (f *listenFlags) options() listen.Options { return listen.Options{ReusePort: f.ReusePort} }

// sockets returns the sockets that systemd passed, by the name of their door.
func sockets(doors ...string) (map[string]net.Listener, error) {
	passed, err := systemd.Listeners(doors...)
	if err != nil {
		for _, socket := range passed {
			_ = socket.Close() // nobody will use it
		}
		return nil, err
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
