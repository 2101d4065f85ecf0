package service

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate/problemjson"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	"github.com/slidegate/slidegate/store"
)

// openSeen opens the exchange of what the instances have seen.
func (s *Server) openSeen(key *gate.Key) {
	o := seen.Options{
		Instance: s.describe, Policies: s.gate.InForce, LeasesOut: s.stores.LeasesOut, Peek: s.gate.Share, Now: time.Now,
		Secret: func(ctx context.Context) []byte { return key.Derive(ctx, "keys seen") },
	}
	switch documents, ok := store.As[store.Documents](s.stores.Store); {
	case s.stores.Memory != nil:
		o.Why = "the store is in memory, which no other instance shares"
	case !ok:
		o.Why = "the store keeps no documents for other instances, so each one shows only itself"
	default:
		o.Documents = documents
	}
	s.exchange = seen.NewExchange(s.record, o)
}

// instanceName returns the name of this instance in what was seen.
func instanceName() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// describe describes this instance.
func (s *Server) describe() seen.Instance {
	text, why := s.readiness(false)
	if why != "" {
		text = why
	}
	i := seen.Instance{
		Name: instanceName(), Version: s.opts.Version, Config: *s.hash.Load(), Started: s.started.UTC(), Health: text,
		Store: s.stores.Store.Traits().Name, WithoutStore: s.stores.Health() != nil, HoldsOut: s.gate.Held(),
	}
	s.reloading.Lock()
	i.RestartNeeded = restartFields(s.restart)
	s.reloading.Unlock()
	i.Latency = s.recent.latency(s.telemetry.latency)
	return i
}

// recentLatency knows how long the decisions of the last minute took. The zero value is ready to use.
type recentLatency struct{ earlier, before atomic.Pointer[gate.Sums] }

const latencyEvery = 30 * time.Second

// sample keeps the counts of now and of the sample before, until ctx ends.
func (r *recentLatency) sample(ctx context.Context, of *gate.Latency) {
	tick := time.NewTicker(latencyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			sums := of.Sums()
			r.earlier.Store(r.before.Swap(&sums))
		}
	}
}

func (r *recentLatency) latency(of *gate.Latency) seen.Latency {
	before := &gate.Sums{}
	if earlier := r.earlier.Load(); earlier != nil {
		before = earlier
	}
	now := of.Sums()
	return seen.Latency{P50: milliseconds(now.Since(before, 0.5)), P99: milliseconds(now.Since(before, 0.99))}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// The number of keys in a list of /v1/seen.
const (
	usualSeenKeys = 20
	maxSeenKeys   = 50
)

// seenRoutes adds the paths about what was seen.
func (s *Server) seenRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/seen", func(w http.ResponseWriter, r *http.Request) {
		n, ok := listLength(w, r)
		if !ok {
			return
		}
		if text, err := s.glanceAt(r.Context(), n, true); err == nil { // otherwise the client has left
			problemjson.SendJSON(w, json.RawMessage(text))
		}
	})
	mux.HandleFunc("GET /v1/seen/stream", s.whileAllowed(s.streamSeen))
	mux.Handle("POST /v1/seen/key", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.revealKey)))
}

// listLength returns the parameter n, or responds with a problem.
func listLength(w http.ResponseWriter, r *http.Request) (n int, ok bool) {
	text := r.URL.Query().Get("n")
	if text == "" {
		return usualSeenKeys, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxSeenKeys {
		problemjson.Document{Status: http.StatusBadRequest, Detail: "n: must be 1 to " + strconv.Itoa(maxSeenKeys)}.Send(w)
		return 0, false
	}
	return n, true
}

const (
	streamTimeout = 10 * time.Second // for a client that does not read
	maxStreams    = 100
)

// glanceEvery is the shortest time between two documents that requests make.
const glanceEvery = 50 * time.Millisecond

// glance is what was seen a moment ago: all requests and streams that are served at about the same time share it, so that many cost hardly more
// than one. The zero value is ready to use.
type glance struct {
	mu     sync.Mutex
	at     time.Time       // when it was begun
	turned <-chan struct{} // of the exchange, at that time
	seen   *seen.Document
	texts  map[int][]byte // as JSON, by the most keys in a list
}

// glanceAt returns what was seen, with n keys in each list: for a stream, in this turn of the exchange, and for a request, by now and by all
// instances, so that it may wait.
func (s *Server) glanceAt(ctx context.Context, n int, request bool) (text []byte, err error) {
	g, asked := &s.glance, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	turned, look, old := s.exchange.Turned(), s.exchange.Glance, time.Since(g.at) >= time.Second
	if old = old || g.turned != turned; request {
		look, old = s.exchange.Document, g.at.Before(asked) || !s.exchange.Ready()
	}
	if old {
		if request && !pause(ctx, glanceEvery-time.Since(g.at)) {
			return nil, ctx.Err()
		}
		began, found := time.Now(), look(ctx, maxSeenKeys)
		if err := ctx.Err(); err != nil { // it is not complete
			return nil, err
		}
		g.at, g.turned, g.seen, g.texts = began, turned, found, map[int][]byte{}
	}
	if text = g.texts[n]; text == nil {
		if text, err = json.Marshal(g.seen.Cut(n)); err == nil {
			g.texts[n] = text
		}
	}
	return text, err
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// streamSeen serves GET /v1/seen/stream: the document once a second, as server-sent events, until the client leaves or the service drains.
func (s *Server) streamSeen(w http.ResponseWriter, r *http.Request) {
	n, ok := listLength(w, r)
	if !ok {
		return
	}
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		problemjson.Document{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("%d streams are open, the most that an instance serves; close one", maxStreams)}.Send(w)
		return
	}
	defer s.streams.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request has been read
	for {
		turned := s.exchange.Turned()
		text, err := s.glanceAt(r.Context(), n, false)
		if err != nil {
			return // the client has left
		}
		_ = control.SetWriteDeadline(time.Now().Add(streamTimeout))
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.drained.Done():
			return
		case <-turned:
		}
	}
}

// revealed is the response of revealKey.
type revealed struct {
	Key    string `json:"key"`                  // in quotes if it is not text
	Base64 string `json:"key_base64,omitempty"` // if it is not text
	Cut    bool   `json:"cut,omitempty"`        // it is only the beginning of the key, and a hash
}

// revealKey serves POST /v1/seen/key: the text of a key, which is logged with who asked for it.
func (s *Server) revealKey(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Policy, ID string }
	decoder := json.NewDecoder(io.LimitReader(r.Body, 4<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil || asked.ID == "" || asked.Policy == "" {
		problemjson.Document{Status: http.StatusBadRequest, Detail: `the body must be {"policy":"…","id":"…"}, as /v1/seen lists them`}.Send(w)
		return
	}
	key, ok := s.exchange.Key(r.Context(), asked.Policy, asked.ID)
	if !ok {
		problemjson.Document{Status: http.StatusNotFound, Field: "id", Detail: "no instance has seen this key in the last hour, or it has made room for others"}.Send(w)
		return
	}
	s.log.Info("key shown", slog.String("policy", asked.Policy), slog.String("key_id", asked.ID), slog.String("who", who(r.Context(), "")))
	if utf8.ValidString(key) {
		problemjson.SendJSON(w, revealed{Key: key, Cut: seen.IsCut(key)})
		return
	}
	problemjson.SendJSON(w, revealed{fmt.Sprintf("%q", key), base64.StdEncoding.EncodeToString([]byte(key)), seen.IsCut(key)})
}
