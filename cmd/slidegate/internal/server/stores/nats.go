package stores

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/slidegate/slidegate/kvstore"
	"github.com/slidegate/slidegate/kvstore/natskv"
	"github.com/slidegate/slidegate/store"
)

// natsTarget is the parsed URL of a JetStream bucket.
type natsTarget struct {
	servers []string // without users and passwords; empty if the server is embedded
	options []nats.Option
	bucket  natskv.Options
	store   kvstore.Options
	offline store.Store
	// embedded is the server in this process; nil if the servers are remote.
	embedded *embedded
}

const natsPort = "4222"

// natsTraits are the traits of natskv, for use before the first connection.
var natsTraits = kvstore.Traits{Name: "nats", MaxName: 128, ServerClock: true}

// natsParameters are the parameters of the bucket, shared by remote and embedded servers.
var natsParameters = []string{"bucket", "replicas", "storage", "prefix"}

// parseNATSOrEmbedded parses the URL of NATS servers, or of an embedded one.
func parseNATSOrEmbedded(text string, opts *Options) (*natsTarget, error) {
	if _, rest, _ := strings.Cut(text, ":"); strings.HasPrefix(rest, "//") {
		return parseNATS(text, opts)
	}
	return parseEmbedded(text, opts)
}

// parseNATS parses the URL of one NATS server, or of several of one cluster.
func parseNATS(text string, opts *Options) (*natsTarget, error) {
	a, err := parseAddress(text, natsPort, append(slices.Clone(natsParameters), "credentials", "ca", "cert", "key", "skip_verify")...)
	if err != nil {
		return nil, err
	}
	if len(a.path) > 0 && (len(a.path) > 1 || a.path[0] != "") {
		return nil, invalid("URL", "a nats URL must have only parameters after its hosts; write bucket=NAME after a ? to name the bucket, "+
			"and percent-encode the / in a password")
	}
	t := &natsTarget{}
	for _, host := range a.hosts {
		t.servers = append(t.servers, a.scheme+"://"+host)
	}
	switch {
	case a.user != "" && a.password != "":
		t.options = append(t.options, nats.UserInfo(a.user, a.password))
	case a.user != "":
		t.options = append(t.options, nats.Token(a.user)) // as NATS itself interprets such a URL
	case a.password != "":
		return nil, invalid("URL", "the nats URL has a password without a user; write nats://USER:PASSWORD@HOST, or nats://TOKEN@HOST for a token")
	}
	if file := a.query.Get("credentials"); file != "" {
		t.options = append(t.options, nats.UserCredentials(file))
	}
	if err := t.readTLS(&a); err != nil {
		return nil, err
	}
	if err := t.readBucket(a.query.Get, opts); err != nil {
		return nil, err
	}
	return t, nil
}

// readTLS parses the TLS parameters. As with every client of NATS, a server that requires TLS gets it under nats:// too.
func (t *natsTarget) readTLS(a *address) error {
	ca, cert, key, skip := a.query.Get("ca"), a.query.Get("cert"), a.query.Get("key"), a.query.Get("skip_verify")
	if a.scheme != "tls" && (ca != "" || cert != "" || key != "" || skip != "") {
		return invalid("URL", "ca, cert, key and skip_verify require TLS; write tls:// instead of nats://")
	}
	if (cert == "") != (key == "") {
		return invalid("URL", "cert and key go together; name the files of both")
	}
	if skip != "" {
		yes, err := strconv.ParseBool(skip)
		if err != nil {
			return invalid("URL", "skip_verify: must be true or false, not %q", skip)
		}
		t.options = append(t.options, nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: yes}))
	}
	if ca != "" {
		t.options = append(t.options, nats.RootCAs(ca))
	}
	if cert != "" {
		t.options = append(t.options, nats.ClientCert(cert, key))
	}
	return nil
}

// readBucket parses the parameters of the bucket.
func (t *natsTarget) readBucket(parameter func(name string) string, opts *Options) (err error) {
	t.bucket.Bucket = parameter("bucket")
	if strings.ContainsFunc(t.bucket.Bucket, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	}) {
		return invalid("URL", "bucket: use letters, digits, - and _")
	}
	if text := parameter("replicas"); text != "" {
		if t.bucket.Replicas, err = strconv.Atoi(text); err != nil || t.bucket.Replicas < 1 || t.bucket.Replicas > 5 {
			return invalid("URL", "replicas: must be 1 to 5, not %q; 3 survive the loss of one server", text)
		}
	}
	switch storage := parameter("storage"); storage {
	case "", "file":
	case "memory":
		t.bucket.Memory = true
	default:
		return invalid("URL", "storage: must be file or memory, not %q", storage)
	}
	t.store = kvOptions(parameter("prefix"), opts.Timeout)
	t.offline, err = offlineKV(natsTraits, t.store)
	return err
}

// natsTimeout is how long an attempt to connect and open the bucket may take. Decisions do not wait for it.
const natsTimeout = 2 * time.Second

// connect connects and opens the bucket. From then on, the connection reconnects automatically.
func (t *natsTarget) connect(ctx context.Context) (*link, error) {
	conn, err := t.dial(ctx)
	if err != nil {
		return nil, err
	}
	openContext, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	engine, err := natskv.Open(openContext, conn, t.bucket)
	if err == nil {
		var st *kvstore.Store
		if st, err = kvstore.New(engine, t.store); err == nil {
			return t.link(conn, engine, st), nil
		}
		engine.Close()
	}
	conn.Close()
	return nil, t.explain(err)
}

func (t *natsTarget) dial(ctx context.Context) (*nats.Conn, error) {
	options := append([]nats.Option{
		nats.Name("slidegate"), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond), nats.Timeout(dialTimeout),
		nats.PingInterval(5 * time.Second), nats.MaxPingsOutstanding(2), // a silent server is abandoned after 15 seconds
		nats.ReconnectBufSize(-1),   // fail immediately instead of buffering
		nats.IgnoreAuthErrorAbort(), // a password may be changed while the server restarts
	}, t.options...)
	if t.embedded != nil {
		return t.embedded.connect(options...)
	}
	d := &dialer{ctx: ctx}
	conn, err := nats.Connect(strings.Join(t.servers, ","), append(options, nats.SetCustomDialer(d))...)
	if why := d.lastErr.Load(); why != nil && errors.Is(err, nats.ErrNoServers) {
		err = fmt.Errorf("%w: %w", err, *why)
	}
	return conn, err
}

// dialer dials unless ctx has ended, so that closing the store does not wait for an attempt. It is safe for concurrent use.
type dialer struct {
	ctx     context.Context
	lastErr atomic.Pointer[error] // the error of the last attempt, which the client does not return
}

// Dial connects to a server.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network, address)
	if err != nil {
		d.lastErr.Store(&err)
	}
	return conn, err
}

// explain adds the probable cause to errors of NATS that do not name it.
func (t *natsTarget) explain(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	if t.embedded != nil && t.embedded.clustered() {
		return fmt.Errorf("%w: the cluster has no majority yet: start more of its processes, and check that they can reach each other's routes", err)
	}
	return fmt.Errorf("%w: JetStream does not answer: is it enabled (nats-server -js), and is most of its cluster up?", err)
}

func (t *natsTarget) link(conn *nats.Conn, engine kvEngine, st store.Store) *link {
	ping := func(ctx context.Context) error {
		if _, _, err := engine.Get(ctx, pingName); err != nil {
			return failed("nats", t.explain(err))
		}
		return nil
	}
	return &link{store: st, ping: ping, close: func() {
		engine.Close()
		conn.Close()
	}}
}

// pingName is a name that no entry has.
const pingName = "ping"
