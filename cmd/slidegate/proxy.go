package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/proxy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/fields"
)

// proxyCommand puts limits in front of an application.
type proxyCommand struct {
	To   string `first:"" option:"proxy.To" required:"" placeholder:"URL" help:"URL of the application, such as http://localhost:3000." group:"Listeners"`
	HTTP string `first:"" option:"service.Proxy" placeholder:"HOST:PORT" default:"127.0.0.1:8080" help:"Address to accept clients on. (default: 127.0.0.1:8080)" group:"Listeners"`

	policyFlags
	Route          []string `first:"" option:"config.match gate.match gate.limits" placeholder:"'POST /login=5/1m'" sep:"none" help:"Limit for some requests: a pattern of net/http, =, and the limit. Requests also face --limit, if it is given; otherwise requests that match no route are not limited. Repeat the flag for several." group:"Policies"`
	Key            []string `first:"" option:"config.key" placeholder:"TEMPLATE" sep:"none" help:"Key of a request, without --config: {address}, '{header:X-Tenant}', '{address} {path}'. If repeated, the first key whose fields a request has is used. (default: {address})" group:"Policies"`
	TrustedProxies []string `first:"" option:"config.trusted_proxies" placeholder:"PREFIX" help:"Proxies in front of this one whose X-Forwarded-For is trusted, without --config: addresses, prefixes, loopback, private." group:"Policies"`

	RewriteHost    bool          `help:"Send the application the host of --to instead of the host that the client requested." group:"Running"`
	AllowAmbiguous bool          `help:"Forward requests that servers read in different ways, instead of rejecting them with 400: targets that begin with // or contain a #, methods in small letters, repeated lines of a header that a policy uses." group:"Running"`
	Headers        string        `enum:"ietf,draft03,x,x-delta,none" default:"ietf" help:"Rate limit headers of responses: ietf, draft03, x, x-delta, none." group:"Running"`
	Timeout        time.Duration `default:"1m" help:"How long to wait for the application to begin its response." group:"Running"`
	SocketIdle     time.Duration `name:"websocket-idle" default:"10m" help:"How long a websocket may be idle before it is closed." group:"Running"`
	runningFlags
}

// dialects are the values of --headers.
var dialects = map[string]httplimit.Headers{
	"ietf": httplimit.HeadersIETF, "draft03": httplimit.HeadersDraft03, "x": httplimit.HeadersX, "x-delta": httplimit.HeadersXDelta,
	"none": httplimit.HeadersNone,
}

// Run forwards requests until a signal ends it.
func (p *proxyCommand) Run(ctx context.Context, c *console) error {
	return p.runningFlags.run(ctx, c, p)
}

// configure sets the options of the server.
func (p *proxyCommand) configure() (err error) {
	o := &p.Options
	if o.File, err = p.file(); err != nil {
		return err
	}
	to, err := url.Parse(p.To)
	switch {
	case p.HTTP == "" || p.HTTP == "off":
		return errors.New("--http: is required for a proxy; write host:port, such as 127.0.0.1:8080")
	case err != nil:
		return errors.New("--to: is not a URL; write http://host:port, such as http://127.0.0.1:3000")
	case p.Timeout <= 0:
		return errors.New("--timeout: must be positive")
	case p.SocketIdle <= 0:
		return errors.New("--websocket-idle: must be positive")
	}
	o.Paths, o.Proxy, o.Application = p.Config, p.HTTP, proxy.Options{
		To: to, RewriteHost: p.RewriteHost, AllowAmbiguous: p.AllowAmbiguous, Headers: dialects[p.Headers], Timeout: p.Timeout, WebsocketIdle: p.SocketIdle,
	}
	return nil
}

// trustedProxies parses the flag like the field trusted_proxies of a file. It rejects 10.0.0.1/8, which may be meant as one
// address or as all of 10.0.0.0/8.
func trustedProxies(texts []string) ([]netip.Prefix, error) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix != prefix.Masked() {
			return nil, fmt.Errorf("%q has bits beyond its length; write %s", text, prefix.Masked())
		}
	}
	return clientip.ParseProxies(texts...)
}

// file returns the policy file, or one made from the flags.
func (p *proxyCommand) file() (*config.File, error) {
	if len(p.Config) > 0 {
		if len(p.Route) > 0 || len(p.Key) > 0 || len(p.TrustedProxies) > 0 {
			return nil, errors.New("--config" + variableNote("config") + ": the file sets the routes, the keys and the trusted proxies; " +
				"leave out --route, --key and --trusted-proxies, or --config")
		}
		return p.policyFlags.read()
	}
	file, err := p.policyFlags.read()
	if err != nil {
		return nil, err
	}
	if file.Policies[0].Key, err = templateOf(p.Key); err != nil {
		return nil, err
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
		file.Policies = file.Policies[1:] // without the default limit, which was not requested
	}
	return file, nil
}

// templateOf combines several templates. For each request, the result uses the first template whose fields the
// request has. Without a template it is the client's address, not fields.Default: no application sends a proxy other keys.
func templateOf(texts []string) (fields.Template, error) {
	if len(texts) == 0 {
		texts = []string{"{address}"}
	}
	templates := make([]fields.Template, len(texts))
	for i, text := range texts {
		var err error
		if templates[i], err = fields.ParseTemplate(text); err != nil {
			return fields.Template{}, inFlag("--key", err)
		}
	}
	made, _, err := fields.FirstOf(templates...)
	if err != nil {
		return fields.Template{}, inFlag("--key", err)
	}
	return made, nil
}

// addRoute adds a limit to the policy of its route, which it creates if there is none.
func addRoute(file *config.File, text string) error {
	pattern, limitText, found := strings.Cut(text, "=")
	pattern = strings.TrimSpace(pattern)
	if !found || pattern == "" {
		return fmt.Errorf("--route %s: write a pattern, = and a limit, such as 'POST /login=5/1m'", text)
	}
	if err := config.CheckMatch(pattern); err != nil {
		return err
	}
	at := slices.IndexFunc(file.Policies, func(p config.Policy) bool { return slices.Contains(p.Patterns(), pattern) })
	if at < 0 {
		at = len(file.Policies)
		file.Policies = append(file.Policies, config.Policy{Name: routeName(file, pattern), Match: config.Routes(pattern), Key: file.Policies[0].Key})
	}
	if err := file.Policies[at].AddLimit(strings.TrimSpace(limitText)); err != nil {
		return inFlag("--route "+text, err)
	}
	return nil
}

// routeName derives the name of a policy from its pattern: post-login from POST /login. The name is part of state and headers, so it
// is the same at every start.
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

// about returns where the proxy forwards requests to, and the limits.
func (p *proxyCommand) about(running *service.Server) (lines []line, try string) {
	return []line{{"to", p.To}, {"limit", strings.Join(limitLines(p.File), "\n")}, p.storeLine(running, p.File)}, ""
}

// limitLines describes which requests have which limits, one line per policy.
func limitLines(file *config.File) (lines []string) {
	for i := range file.Policies {
		policy := &file.Policies[i]
		var limited, exempt []string
		for _, route := range policy.Match {
			if route.Unlimited {
				exempt = append(exempt, route.Pattern)
			} else {
				limited = append(limited, route.Pattern)
			}
		}
		requests := cmp.Or(strings.Join(limited, ", "), "every request")
		if len(exempt) > 0 {
			requests += " except " + strings.Join(exempt, ", ")
		}
		var limits []string
		for _, limit := range policy.Limits {
			limits = append(limits, limit.String())
		}
		lines = append(lines, fmt.Sprintf("%s: %s by %s", requests, strings.Join(limits, ", "), policy.Key))
	}
	return lines
}
