package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listen"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/stores"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/systemd"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
)

// proxyCommand puts limits in front of an application.
type proxyCommand struct {
	To   string `option:"proxy.To" required:"" placeholder:"URL" help:"Where the application listens, such as http://localhost:3000."`
	HTTP string `placeholder:"HOST:PORT" default:"127.0.0.1:8080" help:"Where to listen for its clients. (default: 127.0.0.1:8080)"`

	policyFlags
	listenFlags
	Route          []string `option:"config.match gate.match gate.limits" placeholder:"'POST /login=5/1m'" sep:"none" help:"A limit for some requests: a pattern of net/http, =, and the limit. Together with --limit, both hold; alone, all other requests pass. Repeat it for several." group:"Policies"`
	Key            []string `option:"config.key" placeholder:"TEMPLATE" sep:"none" help:"Who is limited, without a file: {address}, '{header:X-Tenant}', '{address} {path}'. Repeat it for several, of which the first that is there counts. (default: {address})" group:"Policies"`
	TrustedProxies []string `option:"config.trusted_proxies" placeholder:"PREFIX" help:"Proxies before this one, whose X-Forwarded-For is believed, without a file: addresses, prefixes, loopback, private." group:"Policies"`

	RewriteHost bool          `help:"Send the application its own host, and not the one that the client asked for." group:"Running"`
	Headers     string        `option:"proxy.Headers" enum:"ietf,draft03,x,x-delta,none" default:"ietf" help:"How answers tell what is left: ietf, draft03, x, x-delta, none." group:"Running"`
	Timeout     time.Duration `option:"proxy.Timeout" default:"1m" help:"How long the application has to begin its answer." group:"Running"`
	Drain       time.Duration `option:"proxy.Drain" default:"10s" help:"How long requests that are under way have at the end." group:"Running"`
	MaxConns    int           `option:"proxy.MaxConnections" name:"max-connections" default:"65536" help:"Connections that are held at once, websockets included." group:"Running"`
	MaxPerAddr  int           `option:"proxy.MaxConnectionsPerAddress" name:"max-connections-per-address" placeholder:"N" help:"How many of them one address may hold; trusted proxies may hold all. (default: a quarter)" group:"Running"`
	SocketIdle  time.Duration `option:"proxy.WebsocketIdle" name:"websocket-idle" default:"10m" help:"How long nothing may pass on a websocket until it is cut off." group:"Running"`
	tlsFlags
}

// dialects are the values of --headers.
var dialects = map[string]httplimit.Headers{
	"ietf": httplimit.HeadersIETF, "draft03": httplimit.HeadersDraft03, "x": httplimit.HeadersX, "x-delta": httplimit.HeadersXDelta,
	"none": httplimit.HeadersNone,
}

// Run passes requests on until it is told to end.
func (p *proxyCommand) Run(ctx context.Context, c *console) error {
	file, err := p.file()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.err, nil))
	secure, err := p.tlsFlags.read().Live(log)
	if err != nil {
		return err
	}
	opened, err := stores.Open(ctx, file.Service.Store, stores.Options{Timeout: file.Service.StoreTimeout, Optimism: file.Service.Optimism, Logger: log})
	if err != nil {
		return p.located(err)
	}
	defer func() { _ = opened.Close() }() // there is nothing to save
	g, err := gate.New(file, opened.Stores, gate.Options{Logger: log, Requests: true})
	if err != nil {
		return p.located(err)
	}
	defer func() { _ = g.Close() }()
	passing, err := p.proxy(g, file, log)
	if err != nil {
		return err
	}
	defer passing.Close()
	listener, err := p.listen()
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // which would end the program, file or not
	defer signal.Stop(hup)
	p.welcome(c, listener.Addr(), file)
	tellSystemd(log, systemd.Ready)
	defer context.AfterFunc(ctx, func() { tellSystemd(log, systemd.Stopping) })()
	ctx, end := context.WithCancel(ctx)
	defer end()
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		p.reload(ctx, hup, g, passing, log)
	}()
	defer runtime.KeepAlive(holdRoom())
	err = passing.Serve(ctx, listener, proxy.ServeOptions{
		TLS: secure, DrainDelay: p.DrainDelay, Drain: p.Drain, MaxConnections: p.MaxConns, MaxConnectionsPerAddress: p.MaxPerAddr, WebsocketIdle: p.SocketIdle,
	})
	end()
	<-reloaded
	return err
}

// tellSystemd tells systemd, if it started the proxy, what it does.
func tellSystemd(log *slog.Logger, line string) {
	if err := systemd.Notify(line); err != nil {
		log.Warn("systemd was not told", slog.Any("error", err))
	}
}

// listen opens the address, or takes the socket that systemd passed.
func (p *proxyCommand) listen() (*listen.Listener, error) {
	passed, err := sockets("http")
	if err != nil {
		return nil, err
	}
	at := p.HTTP
	if passed["http"] != nil {
		at = listen.Text(passed["http"].Addr())
	}
	if listen.IsUnix(at) {
		return nil, errors.New("--http: the proxy tells clients apart by their addresses, which a Unix socket does not have; write host:port")
	}
	if passed["http"] != nil {
		return listen.Inherited(passed["http"]), nil
	}
	opened, err := p.listenFlags.options().Open(at)
	if err != nil {
		return nil, explainListen(inFlag("--http", err))
	}
	return opened, nil
}

// trustedProxies reads the flag as a file's trusted_proxies are read: 10.0.0.1/8 may be meant as one address or as all of 10.0.0.0/8,
// and must not be taken for the latter.
func trustedProxies(texts []string) ([]netip.Prefix, error) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix != prefix.Masked() {
			return nil, fmt.Errorf("%q has bits beyond its length; write %s", text, prefix.Masked())
		}
	}
	return clientip.ParseProxies(texts...)
}

// file returns the file, or what the flags say as if they were one.
func (p *proxyCommand) file() (*config.File, error) {
	if p.Config != "" {
		if len(p.Route) > 0 || len(p.Key) > 0 || len(p.TrustedProxies) > 0 {
			return nil, errors.New("--config: the file says which requests have which limits, who is limited and who is trusted: " +
				"leave out --route, --key and --trusted-proxies, or --config")
		}
		return p.policyFlags.read()
	}
	file, err := p.policyFlags.read()
	if err != nil {
		return nil, err
	}
	if len(p.Key) > 0 {
		if file.Policies[0].Key, err = templateOf(p.Key); err != nil {
			return nil, err
		}
	}
	if file.Service.TrustedProxies, err = trustedProxies(p.TrustedProxies); err != nil {
		return nil, inFlag("--trusted-proxies", err)
	}
	for _, text := range p.Route {
		if err := addRoute(file, text); err != nil {
			return nil, err
		}
	}
	if len(p.Route) > 0 && len(p.Limit) == 0 {
		file.Policies = file.Policies[1:] // nobody asked for the default limit
	}
	return file, nil
}

// templateOf returns the template that makes the key by the first of several whose fields are there.
func templateOf(texts []string) (config.Template, error) {
	templates := make([]config.Template, len(texts))
	for i, text := range texts {
		var err error
		if templates[i], err = config.ParseTemplate(text); err != nil {
			return config.Template{}, err
		}
	}
	return config.FirstOf(templates...)
}

// addRoute adds a limit to the policy of its route, which is made if there is none yet.
func addRoute(file *config.File, text string) error {
	pattern, limitText, found := strings.Cut(text, "=")
	pattern = strings.TrimSpace(pattern)
	if !found || pattern == "" {
		return fmt.Errorf("--route %s: write a pattern, = and a limit, such as 'POST /login=5/1m'", text)
	}
	if err := config.CheckMatch(pattern); err != nil {
		return err
	}
	limit, err := slidegate.ParseLimit(strings.TrimSpace(limitText))
	if err != nil {
		return inFlag("--route "+text, err)
	}
	for i := range file.Policies {
		if file.Policies[i].Match == pattern {
			file.Policies[i].Limits = append(file.Policies[i].Limits, limit)
			return nil
		}
	}
	file.Policies = append(file.Policies, config.Policy{
		Name: routeName(file, pattern), Match: pattern, Key: file.Policies[0].Key, Limits: []slidegate.Limit{limit},
	})
	return nil
}

// routeName makes a name for a policy of its pattern: post-login of POST /login. State and headers go by it, so it is the
// same at every start.
func routeName(file *config.File, pattern string) string {
	words := strings.FieldsFunc(strings.ToLower(pattern), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := cmp.Or(strings.Join(words, "-"), "route")
	taken := func(name string) bool {
		return slices.ContainsFunc(file.Policies, func(p config.Policy) bool { return p.Name == name })
	}
	free := name
	for i := 2; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

func (p *proxyCommand) proxy(g *gate.Gate, file *config.File, log *slog.Logger) (*proxy.Proxy, error) {
	to, err := url.Parse(p.To)
	if err != nil {
		return nil, inFlag("--to", err)
	}
	if p.Timeout <= 0 {
		return nil, errors.New("--timeout: must be above 0")
	}
	if p.Drain <= 0 {
		return nil, errors.New("--drain: must be above 0")
	}
	if p.DrainDelay < 0 {
		return nil, errors.New("--drain-delay: must not be negative")
	}
	if p.MaxConns <= 0 {
		return nil, errors.New("--max-connections: must be above 0")
	}
	if p.MaxPerAddr < 0 {
		return nil, errors.New("--max-connections-per-address: must not be negative")
	}
	if p.SocketIdle <= 0 {
		return nil, errors.New("--websocket-idle: must be above 0")
	}
	return proxy.New(g, proxy.Options{
		To: to, Trusted: file.Service.TrustedProxies, RewriteHost: p.RewriteHost, Headers: dialects[p.Headers], Timeout: p.Timeout, Logger: log,
	})
}

// lookEvery is how often it is looked whether the file has changed.
const lookEvery = time.Second

// reload reads the file again when it changes, and on SIGHUP, until ctx ends.
func (p *proxyCommand) reload(ctx context.Context, hup <-chan os.Signal, g *gate.Gate, passing *proxy.Proxy, log *slog.Logger) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	seen := p.stamp()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			if now := p.stamp(); p.Config == "" || now == seen {
				continue
			}
		case <-hup:
		}
		seen = p.stamp()
		if p.Config == "" {
			continue
		}
		file, err := config.Load(p.Config)
		if err != nil {
			log.Error("file not reloaded; what was in force stays in force", slog.Any("error", err))
			continue
		}
		if g.Reload(file) == nil { // it logs what is wrong
			passing.Trust(file.Service.TrustedProxies)
		}
	}
}

// stamp tells two states of the file apart.
func (p *proxyCommand) stamp() string {
	info, err := os.Stat(p.Config)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// welcome says where the proxy listens, where it passes requests on to, and what the limits are.
func (p *proxyCommand) welcome(c *console, at net.Addr, file *config.File) {
	web := "http"
	if p.TLSCert != "" {
		web = "https"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "slidegate %s\n  listens  %s://%s\n  to       %s\n", version(), web, at, p.To)
	for i := range file.Policies {
		policy := &file.Policies[i]
		requests := policy.Match
		if requests == "" {
			requests = "every request"
		}
		var limits []string
		for _, limit := range policy.Limits {
			limits = append(limits, limit.String())
		}
		fmt.Fprintf(&b, "  limit    %s: %s by %s\n", requests, strings.Join(limits, ", "), policy.Key)
	}
	kind, _, _ := strings.Cut(file.Service.Store, ":")
	if kind == "" || kind == "memory" {
		kind = "memory, forgotten at the end"
	}
	fmt.Fprintf(&b, "  store    %s\n", kind)
	fmt.Fprint(c.err, b.String())
}
