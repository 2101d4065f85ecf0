package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server"
	"github.com/slidegate/slidegate/config"
)

// runningFlags are the flags of all commands that run a server: who may watch over it, what it keeps, how it ends, and what it tells.
type runningFlags struct {
	Admin   string `option:"server.Admin" placeholder:"HOST:PORT" default:"127.0.0.1:8082" help:"Metrics, explain, peek, reset and top, for operators; it shows keys. (default: 127.0.0.1:8082)" group:"Doors"`
	Metrics string `option:"server.Metrics" placeholder:"HOST:PORT" default:"off" help:"Only /metrics, /healthz and /readyz, without a token and without TLS, for Prometheus. No key is in them. (default: off)" group:"Doors"`

	State      string        `option:"server.State" placeholder:"FILE" help:"Keep what is in memory across restarts, in this file. With memcached, only rulings and the key of reservations, in files beside it." group:"Running"`
	StateEvery time.Duration `option:"server.StateEvery" default:"10s" help:"How often that file is written; a crash loses at most this." group:"Running"`
	listenFlags
	Drain      time.Duration `option:"server.Drain" default:"10s" help:"How long requests that are under way have at the end." group:"Running"`
	MaxConns   int           `option:"server.MaxConnections" name:"max-connections" default:"65536" help:"Connections that each door holds at once." group:"Running"`
	MaxPerAddr int           `option:"server.MaxConnectionsPerAddress" name:"max-connections-per-address" placeholder:"N" help:"How many of them one address may hold; trusted proxies may hold all. (default: a quarter)" group:"Running"`
	LogFormat  string        `enum:"text,json" default:"text" help:"How to write the log: text, json." group:"Running"`
	LogLevel   slog.Level    `placeholder:"LEVEL" default:"info" help:"debug, info, warn or error. (default: info)" group:"Running"`
	Refusals   string        `option:"server.LogRefusals" name:"log-refusals" enum:"off,hashed,keys" default:"off" help:"Log a sample of the refusals: a line for a key each 10 seconds, ten lines a second. hashed writes a hash of the key, keys the key itself, which may be personal data. (default: off)" group:"Running"`
	OTLP       bool          `option:"server.OTLP" name:"otlp" help:"Send metrics and traces over HTTP to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names." group:"Running"`

	tlsFlags
	AllowedHosts    []string `option:"server.AllowedHosts" placeholder:"NAME" help:"Names under which a door on loopback without tokens answers, apart from localhost. A web page could have its own name point to this machine." group:"Security"`
	AdminTokensFile string   `option:"server.AdminTokens server.AdminTokensFile" also:"SLIDEGATE_ADMIN_TOKENS" placeholder:"FILE" help:"Tokens of operators, one a line: the admin door then takes no others, and only they reset and refund. The variable SLIDEGATE_ADMIN_TOKENS has them too." group:"Security"`
	TokensFile      string   `option:"server.Tokens server.TokensFile" also:"SLIDEGATE_TOKENS" placeholder:"FILE" help:"Tokens, one a line. Clients must show one of them. The variable SLIDEGATE_TOKENS has them too, separated by commas." group:"Security"`
}

// tlsFlags say how connections are secured.
type tlsFlags struct {
	TLSCert     string `option:"server.TLS.Cert" name:"tls-cert" placeholder:"FILE" help:"The server's certificate, in PEM form." group:"Security"`
	TLSKey      string `option:"server.TLS.Key" name:"tls-key" placeholder:"FILE" help:"Its key." group:"Security"`
	TLSClientCA string `option:"server.TLS.ClientCA" name:"tls-client-ca" placeholder:"FILE" help:"Who must have signed the clients' certificates; without it, clients need none." group:"Security"`
}

func (f *tlsFlags) read() server.TLS {
	return server.TLS{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
}

// serverCommand is a command that runs a server.
type serverCommand interface {
	// options returns what the command itself says; run adds what runningFlags say.
	options() (server.Options, error)
	// welcome says to a person where the server listens, and logWelcome to a log that a program reads.
	welcome(c *console, running *server.Server, file *config.File)
	logWelcome(log *slog.Logger, running *server.Server, file *config.File)
}

// run runs a server until it is told to end. In a log that a program reads, an error is a line like all others.
func (f *runningFlags) run(ctx context.Context, c *console, command serverCommand) error {
	log := f.logger(c)
	err := f.runWith(ctx, c, command, log)
	if err != nil && f.LogFormat == "json" && !errors.Is(err, context.Canceled) {
		log.Error("the service ended", slog.String("error", c.message(err)))
		return toldError{err}
	}
	return err
}

func (f *runningFlags) runWith(ctx context.Context, c *console, command serverCommand, log *slog.Logger) error {
	opts, err := command.options()
	if err != nil {
		return err
	}
	if err := f.checkNumbers(); err != nil {
		return err
	}
	if err := f.listenFlags.fill(&opts); err != nil {
		return err
	}
	c.warnOfVariables(log, os.Environ(), opts.Paths)
	f.fill(&opts, log)
	if f.OTLP {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", slog.Any("error", err)) }))
	}
	signals := make(chan os.Signal, 4) // before anybody can know that it runs: an unheeded SIGHUP would end it
	signal.Notify(signals, syscall.SIGHUP, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running, err := server.New(ctx, opts)
	if err != nil {
		return explainListen(err)
	}
	if f.LogFormat == "json" {
		command.logWelcome(log, running, opts.File)
	} else {
		command.welcome(c, running, opts.File)
	}
	ended := make(chan struct{})
	defer close(ended)
	go heed(running, signals, ended)
	defer runtime.KeepAlive(holdRoom())
	return running.Run(ctx)
}

// fill adds what the flags say to the options of a server.
func (f *runningFlags) fill(o *server.Options, log *slog.Logger) {
	o.Admin, o.Metrics = address(f.Admin), address(f.Metrics)
	o.State, o.StateEvery, o.Drain = f.State, f.StateEvery, f.Drain
	o.MaxConnections, o.MaxConnectionsPerAddress = f.MaxConns, f.MaxPerAddr
	o.TLS, o.Tokens, o.TokensFile, o.AllowedHosts = f.tlsFlags.read(), givenTokens("SLIDEGATE_TOKENS"), f.TokensFile, f.AllowedHosts
	o.AdminTokens, o.AdminTokensFile = givenTokens("SLIDEGATE_ADMIN_TOKENS"), f.AdminTokensFile
	o.LogRefusals = address(f.Refusals) // off is none
	o.Logger, o.OTLP, o.Version, o.Commit = log, f.OTLP, version(), commit()
}

// checkNumbers refuses 0, which to the server means its default.
func (f *runningFlags) checkNumbers() error {
	switch {
	case f.StateEvery <= 0:
		return errors.New("--state-every: must be above 0")
	case f.Drain <= 0:
		return errors.New("--drain: must be above 0")
	case f.MaxConns <= 0:
		return errors.New("--max-connections: must be above 0")
	}
	return nil
}

// heed reloads on SIGHUP, and ends the drain when the end is asked for a second time. A third time gets it at
// once, and loses what is not saved yet.
func heed(running *server.Server, signals chan os.Signal, ended chan struct{}) {
	asked := 0
	for {
		select {
		case <-ended:
			return
		case got := <-signals:
			if got == syscall.SIGHUP {
				_ = running.Reload() // it logs what is wrong
				continue
			}
			if asked++; asked == 2 {
				running.ForceStop()
				signal.Reset(os.Interrupt, syscall.SIGTERM)
			}
		}
	}
}

// address is what a door's flag says; empty for a door that stays shut.
func address(flag string) string {
	if flag == "off" {
		return ""
	}
	return flag
}

func (f *runningFlags) logger(c *console) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		opts.ReplaceAttr = readable
		return slog.New(slog.NewJSONHandler(c.err, opts))
	}
	return slog.New(slog.NewTextHandler(c.err, opts))
}

// explainListen says what to do about an address that is taken.
func explainListen(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.Join(err, errors.New("something listens there already; give another address, or off"))
	}
	return err
}

// operatorLines say where operators find the server, as lines of a welcome.
func (f *runningFlags) operatorLines(running *server.Server) string {
	var b strings.Builder
	if at := reachable(running.Address("admin")); at != "" {
		fmt.Fprintf(&b, "  admin     %s   /metrics, explain, reset, top, rulings\n", webAddress(f.adminScheme(at), at))
	}
	if at := reachable(running.Address("metrics")); at != "" {
		fmt.Fprintf(&b, "  metrics   http://%s   /metrics without a token\n", at)
	}
	return b.String()
}

// webAddress is a URL, or the address of a Unix socket, as --server takes it.
func webAddress(scheme, at string) string {
	if listen.IsUnix(at) {
		return at
	}
	return scheme + "://" + at
}

// adminScheme is how to reach the admin door, which has no TLS if only this machine can.
func (f *runningFlags) adminScheme(at string) string {
	host, _, _ := net.SplitHostPort(at)
	if ip := net.ParseIP(host); f.TLSCert == "" || host == "localhost" || ip.IsLoopback() {
		return "http"
	}
	return "https"
}

// reachable is an address that can be pasted into a command: a door that listens everywhere is also here.
func reachable(at string) string {
	host, port, err := net.SplitHostPort(at)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return at
}

// storeLine says where counts are kept, without the rest of the URL, which may have a password in it.
func (f *runningFlags) storeLine(file *config.File) string {
	kind, _, _ := strings.Cut(file.Service.Store, ":")
	switch {
	case kind != "" && kind != "memory":
		return kind
	case f.State != "":
		return "memory, kept in " + f.State
	default:
		return "memory, forgotten at the end; --state FILE keeps it"
	}
}

// givenTokens returns the tokens of a variable.
func givenTokens(variable string) (tokens []string) {
	for token := range strings.SplitSeq(os.Getenv(variable), ",") {
		for line := range strings.Lines(token) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				tokens = append(tokens, line)
			}
		}
	}
	return tokens
}
