package faultproxy

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy is a proxy in front of a server whose connections can be slowed and cut. It is safe for concurrent use. The zero value is not
// usable; call New.
type Proxy struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// New returns a wire to addr, which forwards without faults at first, and ends with the test.
func New(t testing.TB, addr string) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &Proxy{t: t, proxy: toxiproxy.NewProxy(server, "wire", "127.0.0.1:0", addr)}
	w.Mend()
	t.Cleanup(w.Cut)
	return w
}

// Addr returns the address of the near end of the wire. It stays the same when the wire is cut and mended.
func (w *Proxy) Addr() string {
	w.proxy.Lock()
	defer w.proxy.Unlock()
	return w.proxy.Listen
}

// Cut closes all connections and accepts no new ones.
func (w *Proxy) Cut() { w.proxy.Stop() }

// Mend accepts connections again after Cut.
func (w *Proxy) Mend() {
	w.t.Helper()
	if err := w.proxy.Start(); err != nil {
		w.t.Fatalf("faultproxy: the near end does not listen: %v", err)
	}
}

// Slow delays everything that the server sends, give or take jitter.
func (w *Proxy) Slow(by, jitter time.Duration) {
	w.t.Helper()
	w.add("latency", map[string]any{"latency": by.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Mute forwards requests and drops the replies; after a time it closes the connection.
func (w *Proxy) Mute(closeAfter time.Duration) {
	w.t.Helper()
	w.add("timeout", map[string]any{"timeout": closeAfter.Milliseconds()})
}

// Reset breaks connections with a TCP reset once they are used, after a time.
func (w *Proxy) Reset(after time.Duration) {
	w.t.Helper()
	w.add("reset_peer", map[string]any{"timeout": after.Milliseconds()})
}

// Heal undoes Slow, Mute and Reset.
func (w *Proxy) Heal() { w.proxy.Toxics.ResetToxics(context.Background()) }

// add adds a fault to the replies of the server.
func (w *Proxy) add(kind string, attributes map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": "downstream", "attributes": attributes})
	if err == nil {
		_, err = w.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	if err != nil {
		w.t.Fatalf("faultproxy: cannot add %s: %v", kind, err)
	}
}
