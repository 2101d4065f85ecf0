package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/systemd"
	"github.com/slidegate/slidegate/config"
)

// runningFlags are the flags of all commands that run a server: its admin listeners, state, shutdown, logs and security.
type runningFlags struct {
	Admin   string `first:"" option:"service.Admin" placeholder:"HOST:PORT" default:"127.0.0.1:8082" help:"Address for operators: metrics, explain, peek, reset and top. Its responses contain keys. (default: 127.0.0.1:8082)" group:"Listeners"`
	Metrics string `option:"service.Metrics" placeholder:"HOST:PORT" default:"off" help:"Address for Prometheus: only /metrics, /healthz and /readyz, without a token and without TLS. Its responses contain no keys. (default: off)" group:"Listeners"`

	Instances    int  `option:"service.Instances" default:"1" help:"Number of instances that share the store: in failure mode local, each of them counts against its share of every limit." group:"Running"`
	RequireStore bool `help:"Fail to start if the store cannot be reached, or if no charge can be written to it. Without it, only refused credentials, roles and databases prevent the start, and failure modes decide until the store is up." group:"Running"`

	State      string        `first:"" option:"service.State" placeholder:"FILE" help:"File that keeps the counts of the memory store across restarts. With memcached, it keeps only rulings and the reservation key." group:"Running"`
	StateEvery time.Duration `option:"service.StateEvery" default:"10s" help:"How often the state file is written: a crash loses at most this much, plus the time that writing takes." group:"Running"`
	listenFlags
	Drain      time.Duration `option:"service.Drain" default:"10s" help:"How long requests in progress may take at shutdown." group:"Running"`
	MaxConns   int           `option:"service.MaxConnections" name:"max-connections" default:"65536" help:"Maximum number of connections per listener." group:"Running"`
	MaxPerAddr int           `option:"service.MaxConnectionsPerAddress" name:"max-connections-per-address" placeholder:"N" help:"Maximum number of connections per client address; trusted proxies are exempt. (default: a quarter of --max-connections)" group:"Running"`
	LogFormat  string        `enum:"text,json" default:"text" help:"Log format: text, json." group:"Running"`
	LogLevel   slog.Level    `placeholder:"LEVEL" default:"info" help:"Log level: debug, info, warn or error. (default: info)" group:"Running"`
	Refusals   string        `option:"service.LogRefusals" name:"log-refusals" enum:"off,hashed,keys" default:"off" help:"Log a sample of the refusals: at most one line per key in 10 seconds, and ten lines per second. hashed logs a hash of the key; keys logs the key itself, which may be personal data. (default: off)" group:"Running"`
	OTLP       bool          `option:"service.OTLP" name:"otlp" help:"Send metrics and traces over HTTP to the collector at OTEL_EXPORTER_OTLP_ENDPOINT." group:"Running"`

	tlsFlags
	AllowedHosts    []string `option:"service.AllowedHosts" placeholder:"NAME" help:"Host names, in addition to localhost, that a loopback listener without tokens accepts. Others are rejected, because a web page could make its own name point to this machine." group:"Security"`
	AdminTokensFile string   `option:"service.AdminTokens service.AdminTokensFile" also:"SLIDEGATE_ADMIN_TOKENS" placeholder:"FILE" help:"File of operator tokens, one per line. The admin listener then accepts no others, and only they may reset and refund. The environment variable SLIDEGATE_ADMIN_TOKENS sets them too." group:"Security"`
	TokensFile      string   `first:"" option:"service.Tokens service.TokensFile" also:"SLIDEGATE_TOKENS" placeholder:"FILE" help:"File of accepted client tokens, one per line. The environment variable SLIDEGATE_TOKENS sets them too, separated by commas." group:"Security"`
}

// tlsFlags configure TLS.
type tlsFlags struct {
	TLSCert     string `option:"service.TLS.Cert" name:"tls-cert" placeholder:"FILE" help:"Server certificate, as PEM." group:"Security"`
	TLSKey      string `option:"service.TLS.Key" name:"tls-key" placeholder:"FILE" help:"Private key of the server certificate, as PEM." group:"Security"`
	TLSClientCA string `option:"service.TLS.ClientCA" name:"tls-client-ca" placeholder:"FILE" help:"CA certificate that client certificates must be signed by, as PEM. Without it, clients need no certificate." group:"Security"`
}

func (f *tlsFlags) read() service.TLS {
	return service.TLS{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
}

// serverCommand is a command that runs a server.
type serverCommand interface {
	// options returns the options that the command sets itself; run adds those of runningFlags.
	options() (service.Options, error)
	// printBanner prints where the server listens, for a person; logBanner logs it, for a program.
	printBanner(c *console, running *service.Server, file *config.File)
	logBanner(log *slog.Logger, running *service.Server, file *config.File)
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
	running, err := service.New(ctx, opts)
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
func (f *runningFlags) fill(o *service.Options, log *slog.Logger) {
	o.Admin, o.Metrics = address(f.Admin), address(f.Metrics)
	o.Instances, o.RequireStore = f.Instances, f.RequireStore
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
	case f.Instances <= 0:
		return errors.New("--instances: must be 1 or more")
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
func handleSignals(running *service.Server, signals chan os.Signal, ended chan struct{}) {
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
func (f *runningFlags) operatorLines(running *service.Server) string {
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

// storeLine describes where counts are kept, and what decides while the store does not answer. It has nothing else of the URL, which
// may contain a password.
func (f *runningFlags) storeLine(running *service.Server, file *config.File) string {
	kind, _, _ := strings.Cut(file.Service.Store, ":")
	switch {
	case kind != "" && kind != "memory":
		return kind + "; while it does not answer: " + running.FailureModes()
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

// listenFlags configure how listeners are opened and closed, so that clients do not notice a restart.
type listenFlags struct {
	ReusePort  bool          `name:"reuse-port" help:"Share the ports with other processes that also set this flag, so that a new process can start before the old one ends." group:"Listeners"`
	SocketMode string        `name:"socket-mode" placeholder:"0660" help:"Permissions of Unix sockets, in octal as for chmod. (default: 0660, the owner and the group)" group:"Listeners"`
	DrainDelay time.Duration `option:"service.DrainDelay" name:"drain-delay" default:"0s" help:"How long listeners stay open at shutdown, while /readyz fails and responses close their connections; set it to the time load balancers take to notice." group:"Running"`
}

// fill sets the options of a server from the flags and the sockets that systemd passed.
func (f *listenFlags) fill(o *service.Options) (err error) {
	o.ReusePort, o.DrainDelay = f.ReusePort, f.DrainDelay
	if o.SocketMode, err = socketMode(f.SocketMode); err != nil {
		return err
	}
	o.Sockets, err = sockets(o.Proxy != "")
	return err
}

// sockets returns the sockets that systemd passed, by the name of their listener. The proxy's listener is called http by systemd, as
// its flag is.
func sockets(proxy bool) (map[string]net.Listener, error) {
	known := []string{"http", "grpc", "resp", "admin", "metrics"}
	if proxy {
		known = []string{"http", "admin", "metrics"}
	}
	passed, err := systemd.Listeners(known...)
	if err != nil {
		for _, socket := range passed {
			err = errors.Join(err, socket.Close())
		}
		return nil, err
	}
	if socket := passed["http"]; proxy && socket != nil {
		delete(passed, "http")
		passed["proxy"] = socket
	}
	return passed, nil
}

// socketMode parses the mode of Unix sockets; it returns 0 for an empty text.
func socketMode(text string) (fs.FileMode, error) {
	if text == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, inFlag("--socket-mode", fmt.Errorf("invalid file mode %q; write an octal mode such as 0660, 0600 or 0666", text))
	}
	return fs.FileMode(mode), nil
}

// ballastSize is how much garbage a service may produce before a collection starts. Go collects when the heap has doubled, and a
// service whose requests live for microseconds has almost no live heap: it would collect a hundred times a second, which takes a
// third of the processor time.
const ballastSize = 32 << 20

// newBallast returns memory that is never written to, so no physical memory backs it; the collector counts it as live for as long as
// it is referenced. It returns nil if GOGC or a small GOMEMLIMIT configures the collector.
func newBallast() []byte {
	if _, set := os.LookupEnv("GOGC"); set || debug.SetMemoryLimit(-1) < 8*ballastSize {
		return nil
	}
	return make([]byte, ballastSize)
}

// formatDurations is a slog.HandlerOptions.ReplaceAttr function. It formats durations as 10s; slog's JSON handler
// would write a number of nanoseconds.
func formatDurations(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().Round(time.Microsecond).String())
	}
	return a
}

// loggedError wraps an error that has been logged and must not be printed again.
type loggedError struct{ error }

// Unwrap returns the wrapped error.
func (e loggedError) Unwrap() error { return e.error }
