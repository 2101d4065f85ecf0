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

// runningFlags are the flags of all commands that run a server: its admin listeners, state, shutdown, logs and security.
type runningFlags struct {
	Admin   string `option:"server.Admin" placeholder:"HOST:PORT" default:"127.0.0.1:8082" help:"Address for operators: metrics, explain, peek, reset and top. Its responses contain keys. (default: 127.0.0.1:8082)" group:"Listeners"`
	Metrics string `option:"server.Metrics" placeholder:"HOST:PORT" default:"off" help:"Address for Prometheus: only /metrics, /healthz and /readyz, without a token and without TLS. Its responses contain no keys. (default: off)" group:"Listeners"`

	State      string        `option:"server.State" placeholder:"FILE" help:"File that keeps the state of the memory store across restarts. With memcached, only rulings and the reservation key are kept, in files next to it." group:"Running"`
	StateEvery time.Duration `option:"server.StateEvery" default:"10s" help:"How often the state file is written: a crash loses at most this much, plus the time that writing takes." group:"Running"`
	listenFlags
	Drain      time.Duration `option:"server.Drain" default:"10s" help:"How long requests in progress may take at shutdown." group:"Running"`
	MaxConns   int           `option:"server.MaxConnections" name:"max-connections" default:"65536" help:"Maximum number of connections per listener." group:"Running"`
	MaxPerAddr int           `option:"server.MaxConnectionsPerAddress" name:"max-connections-per-address" placeholder:"N" help:"Maximum number of connections per client address; trusted proxies are exempt. (default: a quarter of --max-connections)" group:"Running"`
	LogFormat  string        `enum:"text,json" default:"text" help:"Log format: text, json." group:"Running"`
	LogLevel   slog.Level    `placeholder:"LEVEL" default:"info" help:"Log level: debug, info, warn or error. (default: info)" group:"Running"`
	Refusals   string        `option:"server.LogRefusals" name:"log-refusals" enum:"off,hashed,keys" default:"off" help:"Log a sample of the refusals: at most one line per key in 10 seconds, and ten lines per second. hashed logs a hash of the key; keys logs the key itself, which may be personal data. (default: off)" group:"Running"`
	OTLP       bool          `option:"server.OTLP" name:"otlp" help:"Send metrics and traces over HTTP to the collector at OTEL_EXPORTER_OTLP_ENDPOINT." group:"Running"`

	tlsFlags
	AllowedHosts    []string `option:"server.AllowedHosts" placeholder:"NAME" help:"Host names, in addition to localhost, that a loopback listener without tokens accepts. Others are rejected, because a web page could make its own name point to this machine." group:"Security"`
	AdminTokensFile string   `option:"server.AdminTokens server.AdminTokensFile" also:"SLIDEGATE_ADMIN_TOKENS" placeholder:"FILE" help:"File of operator tokens, one per line. The admin listener then accepts no others, and only they may reset and refund. The environment variable SLIDEGATE_ADMIN_TOKENS sets them too." group:"Security"`
	TokensFile      string   `option:"server.Tokens server.TokensFile" also:"SLIDEGATE_TOKENS" placeholder:"FILE" help:"File of accepted client tokens, one per line. The environment variable SLIDEGATE_TOKENS sets them too, separated by commas." group:"Security"`
}

// tlsFlags configure TLS.
type tlsFlags struct {
	TLSCert     string `option:"server.TLS.Cert" name:"tls-cert" placeholder:"FILE" help:"Server certificate, as PEM." group:"Security"`
	TLSKey      string `option:"server.TLS.Key" name:"tls-key" placeholder:"FILE" help:"Private key of the server certificate, as PEM." group:"Security"`
	TLSClientCA string `option:"server.TLS.ClientCA" name:"tls-client-ca" placeholder:"FILE" help:"CA certificate that client certificates must be signed by, as PEM. Without it, clients need no certificate." group:"Security"`
}

func (f *tlsFlags) read() server.TLS {
	return server.TLS{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
}

// serverCommand is a command that runs a server.
type serverCommand interface {
	// options returns the options that the command sets itself; run adds those of runningFlags.
	options() (server.Options, error)
	// printBanner prints where the server listens, for a person; logBanner logs it, for a program.
	printBanner(c *console, running *server.Server, file *config.File)
	logBanner(log *slog.Logger, running *server.Server, file *config.File)
}

// run runs a server until ctx ends. In a JSON log, an error is a line like all others.
func (f *runningFlags) run(ctx context.Context, c *console, command serverCommand) error {
	log := f.logger(c)
	err := f.runWith(ctx, c, command, log)
	if err != nil && f.LogFormat == "json" && !errors.Is(err, context.Canceled) {
		log.Error("the service ended", slog.String("error", c.message(err)))
		return loggedError{err}
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
	c.warnUnknownVariables(log, os.Environ(), opts.Paths)
	f.fill(&opts, log)
	if f.OTLP {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", slog.Any("error", err)) }))
	}
	signals := make(chan os.Signal, 4) // before the server is reachable: an unhandled SIGHUP would end the process
	signal.Notify(signals, syscall.SIGHUP, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running, err := server.New(ctx, opts)
	if err != nil {
		return explainListen(err)
	}
	if f.LogFormat == "json" {
		command.logBanner(log, running, opts.File)
	} else {
		command.printBanner(c, running, opts.File)
	}
	ended := make(chan struct{})
	defer close(ended)
	go handleSignals(running, signals, ended)
	defer runtime.KeepAlive(newBallast())
	return running.Run(ctx)
}

// fill sets the options of a server from the flags.
func (f *runningFlags) fill(o *server.Options, log *slog.Logger) {
	o.Admin, o.Metrics = address(f.Admin), address(f.Metrics)
	o.State, o.StateEvery, o.Drain = f.State, f.StateEvery, f.Drain
	o.MaxConnections, o.MaxConnectionsPerAddress = f.MaxConns, f.MaxPerAddr
	o.TLS, o.Tokens, o.TokensFile, o.AllowedHosts = f.tlsFlags.read(), environmentTokens("SLIDEGATE_TOKENS"), f.TokensFile, f.AllowedHosts
	o.AdminTokens, o.AdminTokensFile = environmentTokens("SLIDEGATE_ADMIN_TOKENS"), f.AdminTokensFile
	o.LogRefusals = address(f.Refusals) // empty if off
	o.Logger, o.OTLP, o.Version, o.Commit = log, f.OTLP, version(), commit()
}

// checkNumbers rejects 0, which means the default in the options of the server.
func (f *runningFlags) checkNumbers() error {
	switch {
	case f.StateEvery <= 0:
		return errors.New("--state-every: must be positive")
	case f.Drain <= 0:
		return errors.New("--drain: must be positive")
	case f.MaxConns <= 0:
		return errors.New("--max-connections: must be positive")
	}
	return nil
}

// handleSignals reloads on SIGHUP, and cuts the drain short on the second SIGINT or SIGTERM. The third ends the process immediately,
// and what is not saved yet is lost.
func handleSignals(running *server.Server, signals chan os.Signal, ended chan struct{}) {
	ends := 0
	for {
		select {
		case <-ended:
			return
		case got := <-signals:
			if got == syscall.SIGHUP {
				_ = running.Reload() // it logs its errors
				continue
			}
			if ends++; ends == 2 {
				running.ForceStop()
				signal.Reset(os.Interrupt, syscall.SIGTERM)
			}
		}
	}
}

// address returns the value of a listener's flag; it is empty for a listener that is off.
func address(flag string) string {
	if flag == "off" {
		return ""
	}
	return flag
}

func (f *runningFlags) logger(c *console) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "json" {
		opts.ReplaceAttr = formatDurations
		return slog.New(slog.NewJSONHandler(c.err, opts))
	}
	return slog.New(slog.NewTextHandler(c.err, opts))
}

// explainListen adds advice to the error of an address that is in use.
func explainListen(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.Join(err, errors.New("another process already listens there; give another address, or off"))
	}
	return err
}

// operatorLines returns the addresses for operators, as lines of the banner.
func (f *runningFlags) operatorLines(running *server.Server) string {
	var b strings.Builder
	if at := dialAddress(running.Address("admin")); at != "" {
		fmt.Fprintf(&b, "  admin     %s   /metrics, explain, reset, top, rulings\n", webAddress(f.adminScheme(at), at))
	}
	if at := dialAddress(running.Address("metrics")); at != "" {
		fmt.Fprintf(&b, "  metrics   http://%s   /metrics without a token\n", at)
	}
	return b.String()
}

// webAddress returns a URL, or the address of a Unix socket, as --server accepts it.
func webAddress(scheme, at string) string {
	if listen.IsUnix(at) {
		return at
	}
	return scheme + "://" + at
}

// adminScheme returns the scheme of the admin listener, which does not use TLS on loopback.
func (f *runningFlags) adminScheme(at string) string {
	host, _, _ := net.SplitHostPort(at)
	if ip := net.ParseIP(host); f.TLSCert == "" || host == "localhost" || ip.IsLoopback() {
		return "http"
	}
	return "https"
}

// dialAddress returns an address that can be pasted into a command: localhost for a listener on all addresses.
func dialAddress(at string) string {
	host, port, err := net.SplitHostPort(at)
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return at
}

// storeLine describes where counts are kept, without the rest of the URL, which may contain a password.
func (f *runningFlags) storeLine(file *config.File) string {
	kind, _, _ := strings.Cut(file.Service.Store, ":")
	switch {
	case kind != "" && kind != "memory":
		return kind
	case f.State != "":
		return "memory, kept in " + f.State
	default:
		return "memory, lost on exit; --state FILE keeps it"
	}
}

// environmentTokens returns the tokens in an environment variable.
func environmentTokens(variable string) (tokens []string) {
	for token := range strings.SplitSeq(os.Getenv(variable), ",") {
		for line := range strings.Lines(token) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				tokens = append(tokens, line)
			}
		}
	}
	return tokens
}
