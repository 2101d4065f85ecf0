package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/listener/envoy"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/store"
)

// serveCommand runs the service.
type serveCommand struct {
	policyFlags

	HTTP string `first:"" option:"service.HTTP" placeholder:"HOST:PORT" default:"127.0.0.1:8080" help:"Address for JSON and forward-auth; unix:/path is a Unix socket, and off disables a listener. (default: 127.0.0.1:8080)" group:"Listeners"`
	GRPC string `first:"" option:"service.GRPC" name:"grpc" placeholder:"HOST:PORT" default:"127.0.0.1:8081" help:"Address for Envoy's rate limit service. (default: 127.0.0.1:8081)" group:"Listeners"`
	RESP string `first:"" option:"service.RESP" name:"resp" placeholder:"HOST:PORT" default:"127.0.0.1:6380" help:"Address for Redis clients. (default: 127.0.0.1:6380)" group:"Listeners"`

	Envoy         []string `option:"service.Envoy envoy.domains" file:"envoy" placeholder:"PATH" sep:"none" help:"File of rules in the format of envoyproxy/ratelimit, or a folder of such files. Repeat the flag for several. They are combined with the rules that the field envoy of a policy file names." group:"Envoy"`
	EnvoyHeaders  string   `enum:"response,request,both,none" default:"response" help:"Where to add rate limit headers: to the response for the client, to the request for the upstream, both or none." group:"Envoy"`
	EnvoyMetadata bool     `help:"Send Envoy dynamic metadata: the domain and the descriptors as Envoy sent them, and the metadata of rules." group:"Envoy"`
	EnvoyShadow   bool     `help:"Always respond OK; the status of each descriptor still shows the decision." group:"Envoy"`
	EnvoyQuota    bool     `help:"Put all rules in quota mode: refuse a request only if all of its rules are over their limits." group:"Envoy"`

	LeaseThrottle bool `name:"lease-throttle" help:"Lease units for busy keys of CL.THROTTLE, as policies with lease: true do." group:"Running"`

	runningFlags
	healthyAtOnce bool // see envoy.Options.HealthyAtOnce

	KeyFile string `option:"service.ReservationKey" name:"reservation-key-file" placeholder:"FILE" help:"File with a secret, the same for all instances, from which the key that signs reservations is derived. (default: a random key, kept in the store)" group:"Security"`
}

// policyFlags set the policies and the store: by a file, or by a few flags.
type policyFlags struct {
	Config  []string `first:"" placeholder:"FILE" sep:"none" help:"Policy file, which also sets the store, or a folder of such files. It is reloaded when it changes, and on SIGHUP. Repeat the flag for several, which are read as one." group:"Policies"`
	Limit   []string `first:"" option:"gate.limits" placeholder:"100/1m" sep:"none" help:"Limit for every key, instead of a file: '100/1m', '20/1s token-bucket burst=40'. Repeat the flag to apply several together. (default: 100/1m)" group:"Policies"`
	Store   string   `first:"" option:"open.URL" file:"store" placeholder:"URL" help:"Store that keeps the counts, without --config: memory:, redis://HOST:PORT, postgres://..., nats://HOST:PORT, or nats:embedded?dir=FOLDER. (default: memory:)" group:"Policies"`
	Failure string   `first:"" option:"gate.failure" file:"failure" placeholder:"MODE" help:"What decides while the store does not answer, without --config: local, closed, open. (default: local)" group:"Policies"`
	V4      *int     `option:"config.address_groups.ipv4" name:"ipv4-prefix" placeholder:"32" help:"Addresses that share this many leading bits are one client, without --config. (default: 32)" group:"Policies"`
	V6      *int     `option:"config.address_groups.ipv6" name:"ipv6-prefix" placeholder:"64" help:"The same for IPv6. (default: 64)" group:"Policies"`
}

// defaultPolicy is the name of the policy that is made from flags.
const defaultPolicy = "default"

// read returns the policy file, or one made from the flags.
func (f *policyFlags) read() (*config.File, error) {
	if len(f.Config) > 0 {
		if len(f.Limit) > 0 || f.Store != "" || f.Failure != "" || f.V4 != nil || f.V6 != nil {
			return nil, errors.New("--config" + variableNote("config") + ": the file sets the limits, the store, its failure mode and the address groups; leave out --limit, --store, --failure, --ipv4-prefix and --ipv6-prefix, or --config")
		}
		return loadConfig(config.Options{}, f.Config...)
	}
	made, err := (&limitFlags{Limit: f.Limit}).policy()
	if err != nil {
		return nil, err
	}
	made.Name, made.Key = defaultPolicy, fields.Default
	service := config.Service{Store: f.Store}
	if f.Failure != "" {
		if service.Failure, err = store.ParseMode(f.Failure); err != nil {
			return nil, inFlag("--failure", err)
		}
	}
	if service.AddressGroups.V4, err = prefixLength("--ipv4-prefix", f.V4, 32); err != nil {
		return nil, err
	}
	if service.AddressGroups.V6, err = prefixLength("--ipv6-prefix", f.V6, 128); err != nil {
		return nil, err
	}
	return &config.File{Policies: []config.Policy{made}, Service: service}, nil
}

// prefixLength returns the value of a flag, or 0, which means the default, if it was not given. An explicit 0 is an error, as in a
// file.
func prefixLength(flag string, given *int, maxBits int) (int, error) {
	if given == nil {
		return 0, nil
	}
	if *given < 1 || *given > maxBits {
		return 0, inFlag(flag, fmt.Errorf("must be a prefix length of 1 to %d, not %d", maxBits, *given))
	}
	return *given, nil
}

// loadConfig reads the files of --config.
func loadConfig(opts config.Options, paths ...string) (*config.File, error) {
	return loadNamed("--config", opts, paths...)
}

// loadNamed is like loadConfig, but for the files of another flag.
func loadNamed(flag string, opts config.Options, paths ...string) (*config.File, error) {
	file, err := config.Load(opts, paths...)
	var unreadable *fs.PathError
	if errors.As(err, &unreadable) {
		err = inFlag(flag, unreadable)
	}
	return file, err
}

// Run serves until a signal ends it.
func (s *serveCommand) Run(ctx context.Context, c *console) error {
	return s.runningFlags.run(ctx, c, s)
}

// configure sets the options of the server.
func (s *serveCommand) configure() (err error) {
	o := &s.Options
	if o.File, err = s.policyFlags.read(); err != nil {
		return err
	}
	if o.ReservationKey, err = readReservationKey(s.KeyFile); err != nil {
		return err
	}
	o.Paths, o.HTTP, o.GRPC, o.RESP, o.LeaseThrottle = s.Config, s.HTTP, s.GRPC, s.RESP, s.LeaseThrottle
	o.Envoy, o.EnvoyOptions = s.Envoy, s.envoyOptions()
	return nil
}

func (s *serveCommand) envoyOptions() envoy.Options {
	return envoy.Options{
		ResponseHeaders: s.EnvoyHeaders == "response" || s.EnvoyHeaders == "both",
		RequestHeaders:  s.EnvoyHeaders == "request" || s.EnvoyHeaders == "both",
		DynamicMetadata: s.EnvoyMetadata, Shadow: s.EnvoyShadow, Quota: s.EnvoyQuota, HealthyAtOnce: s.healthyAtOnce,
	}
}

// about returns what the service runs, and how to try it.
func (s *serveCommand) about(running *service.Server) (lines []line, try string) {
	file, policy, tokens := s.File, &s.File.Policies[0], running.NeedsToken()
	lines = []line{{"policies", s.policiesLine(file)}, {"envoy", s.envoyLine(running)}, s.storeLine(running, file)}
	if at := s.url(running, "http"); at != "" && s.TLS.Cert == "" {
		token := ""
		if tokens {
			token = "-H 'Authorization: Bearer TOKEN' "
		}
		if path := listen.Path(at); path != "" {
			token, at = "--unix-socket "+path+" "+token, "http://localhost"
		}
		// Not --json, which needs curl 7.82.
		try = fmt.Sprintf("curl -i -H 'Content-Type: application/json' -d '%s' %s%s/v1/%s", tryBody(policy.Name), token, at, tryVerb(policy))
	} else if at := s.url(running, "resp"); at != "" && s.TLS.Cert == "" && !tokens {
		host, port, _ := net.SplitHostPort(at)
		where := "-h " + host + " -p " + port
		if path := listen.Path(at); path != "" {
			where = "-s " + path
		}
		try = fmt.Sprintf("redis-cli %s SG.%s %s me", where, strings.ToUpper(tryVerb(policy)), policy.Name)
	}
	return lines, try
}

// envoyLine describes the rules for Envoy; it is empty if there are none.
func (s *serveCommand) envoyLine(running *service.Server) string {
	var names, parts []string
	rules := 0
	for _, domain := range running.Domains() {
		names, rules = append(names, domain.Name()), rules+domain.Rules()
	}
	if len(names) > 0 {
		parts = append(parts, fmt.Sprintf("%s in %s: %s", plural(rules, "rule", "rules"), plural(len(names), "domain", "domains"), firstFew(names)))
	}
	if at := cmp.Or(s.XDS.Address, s.File.Envoy.XDS.Address); at != "" {
		parts = append(parts, "rules from the management server at "+at)
	}
	return strings.Join(parts, ", and ")
}

// tryBody returns the body of a request to try; the default policy need not be named.
func tryBody(policy string) string {
	if policy == defaultPolicy {
		return `{"key":"me"}`
	}
	return `{"policy":"` + policy + `","key":"me"}`
}

// tryVerb returns the operation to try a policy with: acquire if it has slots, otherwise allow.
func tryVerb(p *config.Policy) string {
	if slices.ContainsFunc(p.Limits, func(l slidegate.Limit) bool { return l.Algorithm == slidegate.InFlight }) { // they apply to the key me
		return "acquire"
	}
	return "allow"
}

// policiesLine lists the policies. With --envoy alone, the only policy is the built-in one, which decides requests over JSON,
// forward-auth and RESP, but not those of Envoy.
func (s *serveCommand) policiesLine(file *config.File) string {
	if n := len(file.Policies); n > 1 {
		var names []string
		for i := range file.Policies {
			names = append(names, file.Policies[i].Name)
		}
		return fmt.Sprintf("%d: %s", n, firstFew(names))
	}
	p := file.Policies[0]
	var limits []string
	for _, l := range p.Limits {
		limits = append(limits, l.String())
	}
	line := fmt.Sprintf("%s: %s", p.Name, strings.Join(limits, ", "))
	if len(s.Envoy) > 0 && len(s.Config) == 0 && len(s.Limit) == 0 {
		line += " (built in, not for Envoy; --limit or --config sets others)"
	}
	return line
}

// readReservationKey reads the secret from a file; it returns nil if path is empty.
func readReservationKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, inFlag("--reservation-key-file", err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, fmt.Errorf("--reservation-key-file: %s is empty; write a long random secret to it", path)
	}
	return text, nil
}
