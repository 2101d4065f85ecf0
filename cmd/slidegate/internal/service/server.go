// Package service is the service: it opens the store, runs the policies of a file over it, and serves programs in any language
// over HTTP with JSON, forward-auth, Envoy's rate limit service and RESP. It also provides what a service needs: TLS, tokens,
// bounds on what a client may hold, metrics, reloading, saving the memory store, and graceful shutdown.
package service

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/connlimit"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy/xds"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/forward"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/jsonapi"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/resp"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/rulingsapi"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/open"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/seen"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/systemd"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/memstore"
	"github.com/slidegate/slidegate/rulings"
)

// Server is the service. New creates it and opens its listeners; Run serves until its context ends.
type Server struct {
	opts      Options
	log       *slog.Logger
	tokens    *tokens // the tokens of clients
	admins    *tokens // the tokens of operators; empty if client tokens are accepted
	telemetry *telemetry
	stores    *open.Opened
	state     *memstore.Store // over the folder of Options.State; nil without
	gate      *gate.Gate
	book      *rulings.Book
	rulings   *rulingsapi.API
	api       *jsonapi.API
	forward   *forward.Handler
	envoy     *envoy.Service // nil without its listener
	resp      *resp.Server   // nil without its listener
	proxy     *proxy.Proxy   // nil without its listener
	record    *seen.Record
	exchange  *seen.Exchange // of the record with those of other instances
	recent    recentLatency
	glance    glance
	streams   atomic.Int32 // of what was seen
	keys      *keyLog
	listeners []*listener

	certificates *certificates // nil without TLS

	started  time.Time
	file     *config.File             // the file in force; guarded by reloading
	others   atomic.Pointer[[]string] // the files that it names
	loaded   time.Time                // when file came into force; guarded by reloading
	local    []*envoy.Domain          // the domains that were read from files
	remote   []*envoy.Domain          // the domains that a management server sent
	xds      *xds.Client              // nil without one
	hash     atomic.Pointer[string]   // the hash of the configuration in force
	modes    atomic.Pointer[string]   // the failure modes in force, for the log
	restart  []Restart                // what in the files is not in force; guarded by reloading
	failures reloadFailures           // guarded by reloading
	// restartNeeded reports whether restart is not empty.
	restartNeeded atomic.Bool
	began         []stamp // the files when New was called
	reloads       reloads
	reloading     sync.Mutex

	drained      context.Context // ends when the drain begins
	drain        context.CancelFunc
	closing      context.Context // ends when the listeners close
	beginClosing context.CancelFunc
	forced       context.Context // ends when the drain must be over
	forceStop    context.CancelFunc
}

// listener is one address and the server behind it.
type listener struct {
	name     string
	option   string // the option with its address
	socket   *addresses.Listener
	conns    *connlimit.Listener // on socket
	serve    func(net.Listener) error
	stop     func(context.Context) error // finishes requests in progress, then closes
	secure   bool                        // uses TLS
	requests requests                    // not used by RESP, which has its own counters
}

// New opens the store and the listeners. Connections are served once Run is called. A store that is down is an error only with
// Options.RequireStore: otherwise failure modes decide until it is up. A store that refuses the credentials, the role or the database
// is always an error.
func New(ctx context.Context, opts Options) (*Server, error) {
	opts, err := opts.validate()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, log: opts.Logger, file: opts.File, started: time.Now(), loaded: time.Now()}
	if s.admins, err = newTokens(adminTokens, opts.AdminTokens, opts.AdminTokensFile, nil); err != nil {
		return nil, err
	}
	if s.tokens, err = newTokens("Tokens", opts.Tokens, opts.TokensFile, s.admins); err != nil {
		return nil, err
	}
	if s.certificates, err = newCertificates(opts.TLS); err != nil {
		return nil, err
	}
	if err := s.checkAdmin(); err != nil {
		return nil, err
	}
	if opts.File != nil {
		s.others.Store(&opts.File.Others)
	}
	s.began = stamps(s.paths())
	s.drained, s.drain = context.WithCancel(context.Background())
	s.closing, s.beginClosing = context.WithCancel(context.Background())
	s.forced, s.forceStop = context.WithCancel(context.Background())
	if err = s.file.Locate(s.open(ctx)); err == nil {
		err = s.openListeners()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// open creates everything behind the listeners.
func (s *Server) open(ctx context.Context) (err error) {
	s.keys = newKeyLog(s.opts.LogRefusals, s.log, func(policy, key string) []slidegate.Limit { return s.gate.LimitsOf(policy, key) })
	if s.telemetry, err = newTelemetry(ctx, &s.opts); err != nil {
		return err
	}
	meters := s.telemetry.meters
	s.reloads.lastSuccess.Store(s.loaded.UnixMilli())
	if err := s.openStore(ctx); err != nil {
		return err
	}
	s.record = seen.NewRecord(time.Now)
	key := gate.NewKey(s.keeper(), s.log)
	if s.gate, err = gate.New(s.opts.File, s.stores.Store, gate.Options{
		Closing: s.closing,
		Logger:  s.log, MeterProvider: meters, OnRefused: s.keys.refused, OnCrossed: s.keys.crossed, Seen: s.record,
		Latency: s.telemetry.latency, Key: key,
		Requests: s.opts.Proxy != "",
	}); err != nil {
		return err
	}
	s.logFile(s.opts.File)
	hash := hashConfig(s.file, ruleTexts(s.opts.Envoy))
	if err := s.openEnvoy(); err != nil {
		return err
	}
	if err := s.openRulings(ctx); err != nil {
		return err
	}
	s.hash.Store(&hash)
	s.openSeen(key)
	history := func(ctx context.Context) ([]rulings.Ruling, error) { return s.book.Log(ctx, math.MaxInt) }
	s.api, err = jsonapi.New(s.gate, jsonapi.Options{Logger: s.log, Reject: s.rejection, Log: history, OnChange: func(ctx context.Context, operation string, req gate.Request) {
		s.recordChange(ctx, who(ctx, req.Who), operation, req)
	}})
	if err != nil {
		return err
	}
	checks := forward.Options{TrustUnix: addresses.IsUnix(s.opts.HTTP), Logger: s.log}
	if s.NeedsToken() {
		checks.ValidToken = func(token string) bool { return s.tokens.has(token) }
	}
	if s.forward, err = forward.New(s.gate, checks); err != nil {
		return err
	}
	return s.openApplication()
}

func (s *Server) openStore(ctx context.Context) (err error) {
	service := &s.opts.File.Service
	o := open.Options{
		Timeout: service.StoreTimeout, Instances: s.opts.Instances, Watch: true, Require: s.opts.RequireStore,
		Logger: s.log, MeterProvider: s.telemetry.meters,
		Modes: func() string { return *s.modes.Load() },
	}
	s.setModes(s.opts.File)
	if s.opts.State != "" {
		if kind, _, _ := strings.Cut(strings.ToLower(service.Store), ":"); kind != "" && kind != "memory" {
			return invalid("State", "only a memory store is kept in a folder; remove it, since the configured store keeps its own state")
		}
		if err = s.openState(service.Store); err != nil {
			return err
		}
		o.Memory = s.state
	}
	s.stores, err = open.Open(ctx, service.Store, o)
	return err
}

// Domains returns the rules for Envoy, in the order of their files.
func (s *Server) Domains() []*envoy.Domain {
	if s.envoy == nil {
		return nil
	}
	return s.envoy.Domains()
}

// Address returns the address of a listener (http, grpc, resp, proxy, admin or metrics); empty if it is not open.
func (s *Server) Address(name string) string {
	for _, ln := range s.listeners {
		if ln.name == name {
			return addresses.Text(ln.conns.Addr())
		}
	}
	return ""
}

// Run serves until ctx ends or a listener fails. Then it reports that it is not ready, keeps the listeners open for
// Options.DrainDelay, so that load balancers notice, and closes them. It answers requests in progress for up to Options.Drain,
// saves the state, and closes everything.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving, others sync.WaitGroup
	for _, ln := range s.listeners {
		serving.Go(func() {
			if err := ln.serve(ln.conns); err != nil {
				cancel(invalid(ln.option, "%w", err))
			}
		})
	}
	s.notify(systemd.Ready)
	defer s.startWatchdog()()
	others.Go(func() { s.watch(ctx) })
	if s.xds != nil {
		others.Go(func() { s.xds.Run(ctx) })
	}
	others.Go(func() { s.telemetry.announce(ctx, s.log) })
	others.Go(func() { s.exchange.Run(ctx) })
	others.Go(func() { s.recent.sample(ctx, s.telemetry.latency) })
	<-ctx.Done()
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	s.log.Info("draining", slog.Duration("after", s.opts.DrainDelay), slog.Duration("within", s.opts.Drain))
	s.notify(systemd.Stopping)
	if s.envoy != nil {
		s.envoy.Drain()
	}
	s.drain()
	s.linger()
	s.beginClosing()
	limit, done := context.WithTimeout(s.forced, s.opts.Drain)
	defer done()
	s.telemetry.flush() // the listeners' metrics end with them
	err = errors.Join(err, s.stopListeners(limit))
	serving.Wait()
	others.Wait()
	return errors.Join(err, s.close())
}

// linger keeps the listeners open for Options.DrainDelay.
func (s *Server) linger() {
	delay := time.NewTimer(s.opts.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-s.forced.Done():
	}
}

// ForceStop ends a drain immediately: requests in progress are aborted. The state is still saved. Call it on a second signal.
func (s *Server) ForceStop() { s.forceStop() }

// stopListeners closes all listeners, concurrently.
func (s *Server) stopListeners(ctx context.Context) error {
	errs := make([]error, len(s.listeners))
	var all sync.WaitGroup
	for i, ln := range s.listeners {
		all.Go(func() {
			ln.socket.Quiesce(ctx)
			if err := ln.stop(ctx); err != nil && ctx.Err() == nil {
				errs[i] = invalid(ln.option, "%w", err)
			} else if err != nil {
				s.log.Warn("not drained in time, or told again to stop: requests in progress were aborted", slog.String("listener", ln.name))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// close closes what New opened, in reverse order.
func (s *Server) close() error {
	var all []error
	s.drain()
	s.beginClosing()
	s.forceStop()
	for _, ln := range s.listeners {
		_ = ln.conns.Close() // it may already be closed
	}
	if s.proxy != nil {
		s.proxy.Close()
	}
	if s.gate != nil {
		s.telemetry.flush()
		all = append(all, s.gate.Close())
	}
	s.keys.close()
	if s.book != nil {
		s.book.Close()
	}
	if s.stores != nil {
		all = append(all, s.stores.Close())
	}
	if s.state != nil {
		all = append(all, s.state.Close())
	}
	if s.telemetry != nil {
		if err := s.telemetry.close(); err != nil {
			s.log.Warn("the last metrics and traces were not sent", slog.Any("error", err))
		}
	}
	return errors.Join(all...)
}

// notify reports the server's status to systemd, if systemd started this process.
func (s *Server) notify(lines ...string) {
	if err := systemd.Notify(lines...); err != nil {
		s.log.Warn("systemd was not notified", slog.Any("error", err))
	}
}

// startWatchdog sends watchdog messages to systemd, as often as systemd expects them, until stop is called.
func (s *Server) startWatchdog() (stop func()) {
	every := systemd.WatchdogEvery()
	if every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			s.notify(systemd.Alive)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
