package service

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/connlimit"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/options"
)

// Options configures a Server. File and at least one address are required. Options with the tag help are also flags.
type Options struct {
	// File has the policies and the store's URL.
	File *config.File `kong:"-"`
	// Paths are the files and folders that File was read from; see config.Load. They are watched, and all of them are read again when
	// one changes. Paths is empty if File was not read from files.
	Paths []string `kong:"-"`
	// Envoy lists files in the format of envoyproxy/ratelimit, or folders of such files, in addition to those that File names. They
	// are watched too. Files of the same domain are merged, and so are the rules of the management server that File names. A Proxy
	// uses none of what File names.
	Envoy []string `kong:"-"`
	// EnvoyOptions configures the responses to Envoy. The server sets its Logger, MeterProvider and ClosedIsError.
	EnvoyOptions envoy.Options `kong:"-"`
	// XDS is a management server that sends rules for Envoy. The zero value means that of File, if it names one.
	XDS config.XDS `kong:"-"`

	// Instances is how many instances share the store: in failure mode local, each of them counts against its share of every limit.
	// 0 means 1, so that each instance admits whole limits.
	Instances int `default:"1" help:"Number of instances that share the store: in failure mode local, each of them counts against its share of every limit." group:"Running"`
	// RequireStore makes New return an error if the store cannot be reached, or if no charge can be written to it.
	RequireStore bool `help:"Fail to start if the store cannot be reached, or if no charge can be written to it. Without it, only refused credentials, roles and databases prevent the start, and failure modes decide until the store is up." group:"Running"`

	// LeaseThrottle leases units for busy keys of CL.THROTTLE; policies have their own field for this. It has no effect with a store
	// in memory.
	LeaseThrottle bool `kong:"-"`

	// HTTP, GRPC, RESP and Admin are addresses to listen on, as host:port or unix:/path; a listener whose address is empty or off is not
	// opened. Admin serves the metrics, explain, reset and top: anyone who can reach it can see keys. It must be on loopback, unless
	// there are tokens.
	HTTP, GRPC, RESP string `kong:"-"`
	Admin            string `first:"" option:"service.Admin" placeholder:"HOST:PORT" default:"127.0.0.1:8082" help:"Address for operators: metrics, explain, peek, reset and top. Its responses contain keys. (default: 127.0.0.1:8082)" group:"Listeners"`
	// Proxy is the address of a listener that forwards requests to an application if the policies admit them. It must be host:port,
	// since clients are identified by their addresses. All paths belong to the application, and no token is required. It uses TLS if
	// the other listeners do.
	Proxy string `kong:"-"`
	// Application configures where and how requests to Proxy are forwarded. The server sets its Logger.
	Application proxy.Options `kong:"-"`
	// Metrics is an address that serves only /metrics, /healthz and /readyz, without a token and without TLS, for collectors that
	// cannot send a token. They contain no keys. The admin listener serves /metrics too.
	Metrics string `option:"service.Metrics" placeholder:"HOST:PORT" default:"off" help:"Address for Prometheus: only /metrics, /healthz and /readyz, without a token and without TLS. Its responses contain no keys. (default: off)" group:"Listeners"`

	// Sockets holds sockets that are already open, by the name of their listener: http, grpc, resp, proxy, admin or metrics.
	// They replace addresses. The process that opened them, such as systemd, keeps them open and passes them to the next
	// process.
	Sockets map[string]net.Listener `kong:"-"`
	// ReusePort lets another process listen on the same ports, if that process sets it too.
	ReusePort bool `help:"Share the ports with other processes that also set this flag, so that a new process can start before the old one ends." group:"Listeners"`
	// SocketMode is the mode of Unix sockets; 0 means 0660.
	SocketMode fs.FileMode `kong:"-"`

	// TLS applies to all listeners except Metrics, and Admin on loopback. Its files are watched, and read again when they change.
	TLS TLS `embed:"" prefix:"tls-"`
	// PlainHTTP makes HTTP do without TLS, also if the other listeners use it: probes of envoyproxy/ratelimit expect that.
	PlainHTTP bool `kong:"-"`
	// Tokens are the accepted client tokens. Clients send one as Authorization: Bearer TOKEN or X-Slidegate-Token: TOKEN in HTTP and
	// gRPC, or with AUTH in RESP. If there are none, anyone who can reach a listener may use it. /healthz and /readyz require no
	// token, nor does /v1/check if the file's trusted_proxies include the caller.
	Tokens []string `kong:"-"`
	// TokensFile is a file of more tokens, one per line; empty means none. It is watched, and read again when it changes.
	TokensFile string `first:"" option:"service.Tokens service.TokensFile" also:"SLIDEGATE_TOKENS" placeholder:"FILE" help:"File of accepted client tokens, one per line. The environment variable SLIDEGATE_TOKENS sets them too, separated by commas." group:"Security"`

	// AdminTokens are the accepted operator tokens, and AdminTokensFile has more, as for Tokens. If there are any, the admin listener
	// accepts only these, and refunds and resets require one on every listener; all listeners accept them. If there are none, client
	// tokens are operator tokens too.
	AdminTokens     []string `kong:"-"`
	AdminTokensFile string   `option:"service.AdminTokens service.AdminTokensFile" also:"SLIDEGATE_ADMIN_TOKENS" placeholder:"FILE" help:"File of operator tokens, one per line. The admin listener then accepts no others, and only they may reset and refund. The environment variable SLIDEGATE_ADMIN_TOKENS sets them too." group:"Security"`

	// AllowedHosts are additional host names that HTTP and Admin accept on loopback without tokens; localhost and loopback addresses
	// are always accepted. Requests for other names are rejected, except for /healthz, /readyz and /v1/check, because a web page could
	// point its own name to this machine. Listeners that other machines can reach, and those that require tokens, accept any name.
	AllowedHosts []string `option:"service.AllowedHosts" placeholder:"NAME" help:"Host names, in addition to localhost, that a loopback listener without tokens accepts. Others are rejected, because a web page could make its own name point to this machine." group:"Security"`

	// ReservationKey is a secret of at least 16 bytes from which the key that signs reservations is derived. Give all instances the
	// same secret. Without it, the key is random, and kept in the store.
	ReservationKey []byte `kong:"-"`

	// State is a folder that preserves a memory store: all that is decided is recorded there, and read at the start. If it is empty, a
	// restart loses all counts and rulings. StateDegree says what is not lost: "process", or empty,
	// whatever happens to the process; "synced" nothing at all.
	State       string `first:"" option:"service.State" placeholder:"DIR" help:"Folder that keeps the counts of the memory store, also if the process is killed." group:"Running"`
	StateDegree string `option:"service.StateDegree" placeholder:"DEGREE" default:"process" enum:"process,synced" help:"What --state keeps: process: everything, unless the machine loses power; synced: everything, since each decision is on the disk before it is answered." group:"Running"`

	// MaxConnections is how many connections each listener holds at a time; 0 means 65,536. Further ones are closed immediately.
	MaxConnections int `default:"65536" help:"Maximum number of connections per listener." group:"Running"`
	// MaxConnectionsPerAddress is how many connections one address may hold; 0 means a quarter of MaxConnections. IPv6 addresses are
	// counted by their /64 network. The limit does not apply to the file's trusted_proxies or, if the file does not set them, to
	// this machine.
	MaxConnectionsPerAddress int `option:"service.MaxConnectionsPerAddress" placeholder:"N" help:"Maximum number of connections per client address; trusted proxies are exempt. (default: a quarter of --max-connections)" group:"Running"`
	// DrainDelay is how long, at a graceful shutdown, listeners stay open after /readyz and gRPC's health service have begun to report
	// that the service is not ready. During that time, each HTTP response closes its connection.
	DrainDelay time.Duration `option:"service.DrainDelay" default:"0s" help:"How long listeners stay open at shutdown, while /readyz fails and responses close their connections; set it to the time load balancers take to notice." group:"Running"`
	// Drain is how long a graceful shutdown may take after that; 0 means 10s. Requests in progress are answered in that time.
	Drain time.Duration `default:"10s" help:"How long requests in progress may take at shutdown." group:"Running"`

	// Logger receives the server's log; nil discards it. It never contains keys, unless LogRefusals enables them.
	Logger *slog.Logger `kong:"-"`
	// LogRefusals enables a log of a sample of the refusals, and sets how keys are written: LogRefusalsHashed or LogRefusalsKeys. Empty
	// or off disables it. Keys that are near a limit are logged in any case, hashed unless it is LogRefusalsKeys.
	LogRefusals string `option:"service.LogRefusals" enum:"off,hashed,keys" default:"off" help:"Log a sample of the refusals: at most one line per key in 10 seconds, and ten lines per second. hashed logs a hash of the key; keys logs the key itself, which may be personal data. (default: off)" group:"Running"`
	// OTLP sends metrics and traces over HTTP to the collector named by the variables OTEL_EXPORTER_OTLP_.... It is an error if they
	// name no endpoint or another protocol.
	OTLP bool `option:"service.OTLP" name:"otlp" help:"Send metrics and traces over HTTP to the collector at OTEL_EXPORTER_OTLP_ENDPOINT." group:"Running"`
	// Version is the version that the service reports, and Commit what it was built from.
	Version, Commit string `kong:"-"`

	timeouts timeouts // set by tests, to wait less
}

func (o Options) validate() (Options, error) {
	for _, setting := range []*string{&o.HTTP, &o.GRPC, &o.RESP, &o.Proxy, &o.Admin, &o.Metrics, &o.LogRefusals} {
		if *setting == "off" {
			*setting = ""
		}
	}
	for name, address := range map[string]*string{"http": &o.HTTP, "grpc": &o.GRPC, "resp": &o.RESP, "proxy": &o.Proxy, "admin": &o.Admin, "metrics": &o.Metrics} {
		if socket := o.Sockets[name]; socket != nil {
			*address = addresses.Text(socket.Addr())
		}
	}
	if o.File != nil && o.Proxy == "" {
		o.Envoy = slices.Concat(o.Envoy, o.File.Envoy.Files)
		if o.XDS.Address == "" {
			o.XDS = o.File.Envoy.XDS
		}
	}
	switch {
	case o.File == nil:
		return o, invalid("File", "must not be nil; config.Load reads one")
	case o.HTTP == "" && o.GRPC == "" && o.RESP == "" && o.Admin == "" && o.Proxy == "":
		return o, invalid("HTTP", "no listener is configured; give at least one address to listen on")
	case addresses.IsUnix(o.Proxy):
		return o, invalid("Proxy", "clients are identified by their addresses, which a Unix socket does not have; write host:port")
	case o.DrainDelay < 0:
		return o, invalid("DrainDelay", "must not be negative, got %v", o.DrainDelay)
	case o.StateDegree == degreeSynced && o.State == "":
		return o, invalid("StateDegree", "there is no folder to keep; give --state DIR too, or leave it out")
	case o.ReusePort && o.State != "":
		return o, invalid("State", "a second process on the same ports could not use the folder, which belongs to one process at a time; leave out --reuse-port or --state")
	case o.MaxConnectionsPerAddress < 0:
		return o, invalid("MaxConnectionsPerAddress", "must not be negative, got %d; 0 means a quarter of all", o.MaxConnectionsPerAddress)
	}
	if err := o.TLS.validate(); err != nil {
		return o, err
	}
	if !slices.Contains([]string{"", degreeProcess, degreeSynced}, o.StateDegree) {
		return o, invalid("StateDegree", "must be %s or %s, not %q", degreeProcess, degreeSynced, o.StateDegree)
	}
	if !slices.Contains([]string{"", LogRefusalsHashed, LogRefusalsKeys}, o.LogRefusals) {
		return o, invalid("LogRefusals", "must be %s or %s, not %q", LogRefusalsHashed, LogRefusalsKeys, o.LogRefusals)
	}
	for _, l := range []struct{ option, address string }{
		{"HTTP", o.HTTP}, {"GRPC", o.GRPC}, {"RESP", o.RESP}, {"Admin", o.Admin}, {"Proxy", o.Proxy}, {"Metrics", o.Metrics},
	} {
		if err := addresses.Check(l.address); err != nil && l.address != "" {
			return o, invalid(l.option, "%w", err)
		}
	}
	for _, host := range o.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/*: ") {
			return o, invalid("AllowedHosts", "%q is not a host name; write it without a scheme, a port or a pattern, such as slidegate.internal", host)
		}
	}
	if n := len(o.ReservationKey); n > 0 && n < gate.MinSecret {
		return o, invalid("ReservationKey", "has %d bytes; use at least %d", n, gate.MinSecret)
	}
	o.Drain, o.MaxConnections = cmp.Or(o.Drain, 10*time.Second), cmp.Or(o.MaxConnections, 1<<16)
	o.MaxConnectionsPerAddress = cmp.Or(o.MaxConnectionsPerAddress, connlimit.PerAddress(o.MaxConnections))
	if o.timeouts == (timeouts{}) {
		o.timeouts = defaultTimeouts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkAdmin rejects an admin listener that anyone can reach.
func (s *Server) checkAdmin() error {
	if o := &s.opts; o.Admin != "" && !isLoopback(o.Admin) && s.operators().empty() {
		return invalid("Admin", "%s can be reached from outside, and shows keys; give tokens, or listen on 127.0.0.1", o.Admin)
	}
	return nil
}

// invalid returns an error about an option.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "service", Option: option, Err: fmt.Errorf(format, args...)}
}
