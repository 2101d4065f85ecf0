package envoy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/windows"
)

// admitWindow reports whether a limit that came with a descriptor may be used. Windows of one unit always may: there are few of
// them, and nearly all descriptors use them.
func (s *Service) admitWindow(ctx context.Context, d *domain, window time.Duration) bool {
	return isUnit(window) || s.windows.Admit(connectionOf(ctx), windows.Window{Group: d.name, Length: window})
}

// keepWindow records how long the count of such a limit is kept.
func (s *Service) keepWindow(d *domain, window, rest time.Duration) {
	if !isUnit(window) {
		s.windows.Keep(windows.Window{Group: d.name, Length: window}, rest)
	}
}

func isUnit(window time.Duration) bool {
	return slices.ContainsFunc(units, func(u timeUnit) bool { return u.length == window })
}

// withRemote adds the client of a request over HTTP to its context, as gRPC does.
func withRemote(r *http.Request) context.Context {
	at, _ := netip.ParseAddrPort(r.RemoteAddr) // not on a Unix socket
	return peer.NewContext(r.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(at)})
}

// connectionOf returns the remote address of a connection; "" if it is unknown.
func connectionOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// warning limits a log message to one per minute. Its zero value is ready, and it is safe for concurrent use.
type warning struct{ last atomic.Int64 } // seconds since the epoch

// due reports whether the message should be logged.
func (w *warning) due(now time.Time) bool {
	last := w.last.Load()
	return now.Unix()-last >= 60 && w.last.CompareAndSwap(last, now.Unix())
}
