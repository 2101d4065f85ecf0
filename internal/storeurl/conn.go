package storeurl

import (
	"context"
	"net"
)

// Conn is a connection that is closed when the store that it belongs to is. Without it, closing a store would wait for a server that has
// accepted a connection and does not answer.
type Conn struct {
	net.Conn
	stop func() bool
}

// NewConn returns conn as a connection that is closed when ctx ends.
func NewConn(ctx context.Context, conn net.Conn) *Conn {
	return &Conn{conn, context.AfterFunc(ctx, func() { conn.Close() })}
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.stop()
	return c.Conn.Close()
}
