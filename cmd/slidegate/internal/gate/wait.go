package gate

import (
	"net/http"
	"time"
)

// How long a server may still take to read and to answer a request that has waited.
const afterWait = 10 * time.Second

// AllowWait lets the server wait for as long as a request may stand in line, by its own wait or that of a policy. The timeouts of
// http.Server include that time: when the one for reading has passed, the client would be taken to have left.
func (g *Gate) AllowWait(w http.ResponseWriter, wait time.Duration) {
	if wait = max(wait, g.current.Load().longestWait); wait <= 0 {
		return
	}
	control, end := http.NewResponseController(w), time.Now().Add(wait+afterWait)
	_ = control.SetReadDeadline(end) // all connections of net/http support deadlines
	_ = control.SetWriteDeadline(end)
}

// Waiting returns how many requests wait in line under a policy now.
func (g *Gate) Waiting(policy string) int64 {
	g.metrics.mu.Lock()
	defer g.metrics.mu.Unlock()
	if t := g.metrics.tallies[policy]; t != nil {
		return t.line.Waiting.Load()
	}
	return 0
}
