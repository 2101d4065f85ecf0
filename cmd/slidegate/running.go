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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.opentelemetry.io/otel"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/systemd"
)

// runningFlags are the flags of all commands that run a server. Those of service.Options are admin listeners, state, shutdown and security.
type runningFlags struct {
	service.Options
	SocketMode string     `name:"socket-mode" placeholder:"0660" help:"Permissions of Unix sockets, in octal as for chmod. (default: 0660, the owner and the group)" group:"Listeners"`
	LogFormat  string     `enum:"text,json" default:"text" help:"Log format: text, json." group:"Running"`
	LogLevel   slog.Level `placeholder:"LEVEL" default:"info" help:"Log level: debug, info, warn or error. (default: info)" group:"Running"`
}

// serverCommand is a command that runs a server.
type serverCommand interface {
	// configure sets the options that the flags of the command are not.
	configure() error
	// about returns the lines of the banner, without the listeners, and a command to try the server, or "".
	about(running *service.Server) (lines []line, try string)
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

func (f *runningFlags) runWith(ctx context.Context, c *console, command serverCommand, log *slog.Logger) (err error) {
	if err := command.configure(); err != nil {
		return err
	}
	if err := errors.Join(f.checkNumbers(), f.checkState(c)); err != nil {
		return err
	}
	o := &f.Options
	if o.SocketMode, err = socketMode(f.SocketMode); err != nil {
		return err
	}
	if o.Sockets, err = sockets(o.Proxy != ""); err != nil {
		return err
	}
	c.warnUnknownVariables(log, os.Environ(), o.Paths)
	o.Tokens, o.AdminTokens = environmentTokens("SLIDEGATE_TOKENS"), environmentTokens("SLIDEGATE_ADMIN_TOKENS")
	o.Logger, o.Version, o.Commit = log, version(), commit()
	if o.OTLP {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", slog.Any("error", err)) }))
	}
	signals := make(chan os.Signal, 4) // before the server is reachable: an unhandled SIGHUP would end the process
	signal.Notify(signals, syscall.SIGHUP, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	running, err := service.New(ctx, *o)
	if err != nil {
		return explainListen(err)
	}
	about, try := command.about(running)
	f.printBanner(c, log, running, about, try)
	ended := make(chan struct{})
	defer close(ended)
	go handleSignals(running, signals, ended)
	defer runtime.KeepAlive(newBallast())
	return running.Run(ctx)
}

// checkNumbers rejects 0, which means the default in the options of the server.
func (f *runningFlags) checkNumbers() error {
	switch {
	case f.Instances <= 0:
		return errors.New("--instances: must be 1 or more")
	case f.Drain <= 0:
		return errors.New("--drain: must be positive")
	case f.MaxConnections <= 0:
		return errors.New("--max-connections: must be positive")
	}
	return nil
}

// checkState rejects a folder without a name, which would mean none in the options of the server: a variable of a script may be unset.
func (f *runningFlags) checkState(c *console) error {
	if f.State == "" && slices.ContainsFunc(c.node.Flags, func(flag *kong.Flag) bool { return flag.Name == "state" && flag.Set }) {
		return errors.New("--state: the path is empty; give a folder, or leave out the flag to keep nothing")
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
