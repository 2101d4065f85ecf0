package connlimit

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// settleTime is the longest time that Settle waits. Like net/http, Settle does not wait longer for clients that have connected and
// sent no request.
const settleTime = 5 * time.Second

// ConnState must be set as http.Server.ConnState for Settle to work.
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

// Settle waits until the first request on every connection has been answered, or ctx ends. Call it after the listener has stopped
// listening and before http.Server.Shutdown, which closes a connection without a response if its first request has not been read.
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
