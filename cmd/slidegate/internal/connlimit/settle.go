package connlimit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// settleTime is how long Settle waits at most. Those who have connected and sent no request by then are not waited for; net/http thinks so
// too.
const settleTime = 5 * time.Second

// ConnState is for http.Server.ConnState. Settle needs it.
func (l *Listener) ConnState(conn net.Conn, state http.ConnState) {
	if state == http.StateNew || state == http.StateActive {
		return
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if c, ok := conn.(*counted); ok {
		c.settle()
	}
}

// Settle waits until the first request on every connection has been answered, or ctx ends. It is for the time between the end of
// listening and http.Server.Shutdown, which closes connections without an answer whose first request has not been read yet.
func (l *Listener) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.unsettled.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
