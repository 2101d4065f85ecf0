package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/connlimit"
	addresses "github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/envoy/xds"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/seal"
	"github.com/slidegate/slidegate/config"
)

// Options say what a Server does. File is required, and at least one address.
type Options struct {
	// File has the policies, and where the store is.
	File *config.File
	// Paths are the files, and folders of them, that File was read from; see config.Load. They are watched, and all are read again when one
	// changes. There are none if File was not read from files.
	Paths []string
	// Envoy are files in the format of envoyproxy/ratelimit, or folders of such files. They are watched too. Those of one domain are put
	// together.
	Envoy []string
	// EnvoyXDS is a management server that sends rules, which are put together with those of the files; none if its Address is empty.
	// Its Logger and MeterProvider are the server's to set.
	EnvoyXDS xds.Options
	// EnvoyAnswers says how Envoy is answered. Its Logger, MeterProvider and ClosedIsError are the server's to set.
	EnvoyAnswers envoy.Options

	// LeaseThrottle has units of busy keys of CL.THROTTLE taken in blocks, for which policies have a field of their own. It does
	// nothing with a store in memory.
	LeaseThrottle bool

	// Addresses to listen on, as host:port or unix:/path; a door whose address is empty stays shut. Admin has the metrics, explain, reset
	// and top: whoever can reach it can see keys. It must be on loopback, unless there are tokens.
	HTTP, GRPC, RESP, Admin string
	// Proxy is an address where requests are passed on to an application if the policies admit them: host:port, since clients are told
	// apart by their addresses. All paths are the application's, and no token is asked for. It has TLS if the others have.
	Proxy string
	// Application says where requests to Proxy go, and how. Its Trusted and Logger are the server's to set.
	Application proxy.Options
	// Metrics is an address for /metrics, /healthz and /readyz alone, without a token and without TLS, for collectors that cannot show one. No
	// key is in them. The admin door has /metrics too.
	Metrics string

	// Sockets are sockets that are open already, by the name of their door: http, grpc, resp, proxy, admin or metrics. They take the place of
	// addresses. The process that opened them keeps them, as systemd does, and passes them on to the next one.
	Sockets map[string]net.Listener
	// ReusePort lets another process listen on the same ports, if it says so too.
	ReusePort bool
	// SocketMode is the mode of Unix sockets; 0 means 0660.
	SocketMode fs.FileMode

	// TLS is for all doors but Admin on loopback. Its files are watched, and read again when they change.
	TLS TLS
	// Tokens are what clients must show, one of them: Authorization: Bearer TOKEN or X-Slidegate-Token: TOKEN in HTTP and
	// gRPC, AUTH in RESP. With none, whoever can reach a door may ask. Not asked of /healthz and /readyz, nor of /v1/check where
	// the file's trusted_proxies name the caller.
	Tokens []string
	// TokensFile has more tokens, one per line; empty if there is no such file. It is watched, and read again when it changes.
	TokensFile string

	// AdminTokens are what operators must show, and AdminTokensFile has more, as for Tokens. With them, the admin door takes no others, and
	// refunds and resets need one at every door; all doors take them. With none, those of clients are for operators too.
	AdminTokens     []string
	AdminTokensFile string

	// AllowedHosts are names by which HTTP and Admin may be asked on loopback without tokens, besides localhost and the addresses of
	// loopback. Under other names they do not answer, but for /healthz, /readyz and /v1/check: a web page could have its own name
	// point to this machine. Listeners that other machines reach, and those that ask for tokens, answer under any name.
	AllowedHosts []string

	// ReservationKey is a secret of at least 16 bytes from which the key is derived that signs reservations. Give all instances the
	// same. Without it, the key is random, and kept in the store if that is shared, or in a file beside State.
	ReservationKey []byte

	// State is a file that keeps what a memory store knows across restarts: written every StateEvery (10s if it is 0) and at
	// an orderly end, read at the start. Empty means that a restart forgets.
	State      string
	StateEvery time.Duration

	// MaxConnections is how many connections each door holds at once; 0 means 65,536. One more is closed at once.
	MaxConnections int
	// MaxConnectionsPerAddress is how many of them one address may hold; 0 means a quarter of them. An address of IPv6 is a network
	// of 64 bits. The file's trusted_proxies have no such bound, nor has this machine if the file does not say whom it trusts.
	MaxConnectionsPerAddress int
	// DrainDelay is how long, at an orderly end, doors stay open after /readyz and the health service of gRPC have begun to say no. Answers
	// over HTTP are the last ones of their connections then.
	DrainDelay time.Duration
	// Drain is how long an orderly end may take after that; 0 means 10s. What is under way is answered in that time.
	Drain time.Duration

	// Logger gets what happens; nil means nobody does. No key is ever in it, unless LogRefusals asks for them.
	Logger *slog.Logger
	// LogRefusals says whether a sample of the refusals is logged, and how keys are written: LogRefusalsHashed, LogRefusalsKeys, or
	// empty for no such log.
	LogRefusals string
	// OTLP sends metrics and traces over HTTP to where the variables OTEL_EXPORTER_OTLP_... say. It is an error if they name no endpoint, or
	// another protocol.
	OTLP bool
	// Version is what the service calls itself, and Commit what it was built from.
	Version, Commit string

	timeouts timeouts // for tests, which would wait for too long
}

// TLS are the files of a server's certificate. The zero value means none.
type TLS struct {
	Cert, Key string
	// ClientCA has the authorities that clients' certificates must come from; empty means that clients need none.
	ClientCA string
}

func (t TLS) validate() error {
	switch {
	case t.Cert == "" && t.Key != "":
		return invalid("TLS.Cert", "is missing; give the certificate that the key belongs to")
	case t.Cert != "" && t.Key == "":
		return invalid("TLS.Key", "is missing; give the key of the certificate")
	case t.Cert == "" && t.ClientCA != "":
		return invalid("TLS.ClientCA", "client certificates need TLS; give a certificate and its key")
	}
	return nil
}

func (o Options) validate() (Options, error) {
	for name, address := range map[string]*string{"http": &o.HTTP, "grpc": &o.GRPC, "resp": &o.RESP, "proxy": &o.Proxy, "admin": &o.Admin, "metrics": &o.Metrics} {
		if socket := o.Sockets[name]; socket != nil {
			*address = addresses.Text(socket.Addr())
		}
	}
	switch {
	case o.File == nil:
		return o, invalid("File", "must not be nil; config.Load reads one")
	case o.HTTP == "" && o.GRPC == "" && o.RESP == "" && o.Admin == "" && o.Proxy == "":
		return o, invalid("HTTP", "no listener is configured; give at least one address to listen on")
	case addresses.IsUnix(o.Proxy):
		return o, invalid("Proxy", "clients are told apart by their addresses, which a Unix socket does not have; write host:port")
	case o.StateEvery < 0:
		return o, invalid("StateEvery", "must not be negative, but is %v; 0 means 10s", o.StateEvery)
	case o.DrainDelay < 0:
		return o, invalid("DrainDelay", "must not be negative, but is %v", o.DrainDelay)
	case o.Drain < 0:
		return o, invalid("Drain", "must not be negative, but is %v; 0 means 10s", o.Drain)
	case o.MaxConnections < 0:
		return o, invalid("MaxConnections", "must not be negative, but is %d; 0 means 65,536", o.MaxConnections)
	case o.MaxConnectionsPerAddress < 0:
		return o, invalid("MaxConnectionsPerAddress", "must not be negative, but is %d; 0 means a quarter of all", o.MaxConnectionsPerAddress)
	}
	if err := o.TLS.validate(); err != nil {
		return o, err
	}
	if !slices.Contains([]string{"", LogRefusalsHashed, LogRefusalsKeys}, o.LogRefusals) {
		return o, invalid("LogRefusals", "must be %s or %s, not %q", LogRefusalsHashed, LogRefusalsKeys, o.LogRefusals)
	}
	for _, door := range []struct{ option, address string }{
		{"HTTP", o.HTTP}, {"GRPC", o.GRPC}, {"RESP", o.RESP}, {"Admin", o.Admin}, {"Proxy", o.Proxy}, {"Metrics", o.Metrics},
	} {
		if err := addresses.Check(door.address); err != nil && door.address != "" {
			return o, invalid(door.option, "%w", err)
		}
	}
	for _, host := range o.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/*: ") {
			return o, invalid("AllowedHosts", "%q is not the name of a host; write it without a scheme, a port or a pattern, such as slidegate.internal", host)
		}
	}
	if n := len(o.ReservationKey); n > 0 && n < seal.MinSecret {
		return o, invalid("ReservationKey", "has %d bytes; write at least %d", n, seal.MinSecret)
	}
	if o.StateEvery == 0 {
		o.StateEvery = 10 * time.Second
	}
	if o.Drain == 0 {
		o.Drain = 10 * time.Second
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1 << 16
	}
	if o.MaxConnectionsPerAddress == 0 {
		o.MaxConnectionsPerAddress = connlimit.PerAddress(o.MaxConnections)
	}
	if o.timeouts == (timeouts{}) {
		o.timeouts = usualTimeouts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkAdmin refuses an admin door that everybody can reach.
func (s *Server) checkAdmin() error {
	if o := &s.opts; o.Admin != "" && !isLoopback(o.Admin) && s.operators().none() {
		return invalid("Admin", "%s can be reached from outside, and shows keys; give tokens, or listen on 127.0.0.1", o.Admin)
	}
	return nil
}

// isLoopback tells whether only this machine can reach an address.
func isLoopback(address string) bool {
	if addresses.IsUnix(address) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// invalid returns the error of an option.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "server", Option: option, Err: fmt.Errorf(format, args...)}
}
