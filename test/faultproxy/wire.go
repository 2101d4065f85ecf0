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

// Wire is a way to a server that can be made slow and cut. It is safe for concurrent use. The zero value is not usable;
// New makes it.
type Wire struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// New returns a way to addr, which is a plain one until something is done to it and ends with the test.
func New(t testing.TB, addr string) *Wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &Wire{t: t, proxy: toxiproxy.NewProxy(server, "wire", "127.0.0.1:0", addr)}
	w.Mend()
	t.Cleanup(w.Cut)
	return w
}

// Addr is where the near end of the wire is. It stays the same when the wire is cut and mended.
func (w *Wire) Addr() string {
	w.proxy.Lock()
	defer w.proxy.Unlock()
	return w.proxy.Listen
}

// Cut closes all connections and takes no new ones.
func (w *Wire) Cut() { w.proxy.Stop() }

// Mend takes connections again after Cut.
func (w *Wire) Mend() {
	w.t.Helper()
	if err := w.proxy.Start(); err != nil {
		w.t.Fatalf("faultproxy: the near end does not listen: %v", err)
	}
}

// Slow delays everything that the server answers, give or take jitter.
func (w *Wire) Slow(by, jitter time.Duration) {
	w.t.Helper()
	w.add("latency", map[string]any{"latency": by.Milliseconds(), "jitter": jitter.Milliseconds()})
}

// Mute lets questions through and loses the answers; after a time it closes the connection.
func (w *Wire) Mute(closeAfter time.Duration) {
	w.t.Helper()
	w.add("timeout", map[string]any{"timeout": closeAfter.Milliseconds()})
}

// Reset breaks connections with a TCP reset once they are used, after a time.
func (w *Wire) Reset(after time.Duration) {
	w.t.Helper()
	w.add("reset_peer", map[string]any{"timeout": after.Milliseconds()})
}

// Heal takes away what Slow, Mute and Reset did.
func (w *Wire) Heal() { w.proxy.Toxics.ResetToxics(context.Background()) }

// add does something to what the server answers.
func (w *Wire) add(kind string, attributes map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(map[string]any{"type": kind, "stream": "downstream", "attributes": attributes})
	if err == nil {
		_, err = w.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	}
	if err != nil {
		w.t.Fatalf("faultproxy: the wire does not take %s: %v", kind, err)
	}
}
