package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/gate"
	"github.com/slidegate/slidegate/rule"
)

// errRefused makes a command end with exitRefused. The command has printed the decision.
var errRefused = errors.New("refused")

// decisionFlags select what makes the decision: a running service, or a store accessed directly.
type decisionFlags struct {
	Server string `placeholder:"URL" help:"URL of the service, or unix:/path. (default: http://127.0.0.1:8080, and http://127.0.0.1:8082 for reset)" group:"Service"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service." group:"Service"`
	serverTLS
	Policy string `option:"config.policy" placeholder:"NAME" help:"Name of the policy; envoy:DOMAIN for an Envoy descriptor, whose key is key=value,key=value. (default: the default policy of the service or the file)" group:"Service"`
	Format string `enum:"text,json" default:"text" help:"Output format: text, json." group:"Service"`

	Store  string   `option:"stores.URL config.store" file:"store" placeholder:"URL" help:"URL of the shared store, as for the service: redis://HOST:PORT, postgres://..., nats://HOST:PORT, memcached://HOST:PORT" group:"Direct access to a store, without a service"`
	Limit  []string `option:"gate.limits" placeholder:"100/1m" sep:"none" help:"Limit for every key. Repeat the flag to apply several limits together. (default: 100/1m)" group:"Direct access to a store, without a service"`
	Config []string `placeholder:"FILE" sep:"none" help:"Policy file, which sets both the store and the limits, or a folder of such files. Repeat the flag for several." group:"Direct access to a store, without a service"`
}

// allowCommand decides a request and charges it if it is admitted.
type allowCommand struct {
	Key  string `arg:"" help:"The key to charge."`
	Cost int64  `default:"1" help:"Number of units to charge."`
	decisionFlags
}

// Run prints the decision.
func (a *allowCommand) Run(ctx context.Context, c *console) error {
	return a.decisionFlags.run(ctx, c, "allow", unquoteKey(a.Key), a.Cost)
}

// peekCommand shows what allow would decide, and charges nothing.
type peekCommand struct {
	Key  string `arg:"" help:"The key to look up."`
	Cost int64  `default:"1" help:"Number of units the request would cost."`
	decisionFlags
}

// Run prints the decision.
func (p *peekCommand) Run(ctx context.Context, c *console) error {
	return p.decisionFlags.run(ctx, c, "peek", unquoteKey(p.Key), p.Cost)
}

// chargeCommand charges units that have already been used.
type chargeCommand struct {
	Key  string `arg:"" help:"The key to charge."`
	Cost int64  `default:"1" help:"Number of units used."`
	decisionFlags
}

// Run charges the units and prints what is left.
func (a *chargeCommand) Run(ctx context.Context, c *console) error {
	if a.Cost == 0 {
		return fmt.Errorf("--cost: must be 1 to %d, not 0", int64(rule.MaxQuota))
	}
	return a.decisionFlags.run(ctx, c, "charge", a.Key, a.Cost)
}

// resetCommand clears the counts of a key.
type resetCommand struct {
	Key string `arg:"" help:"The key to reset; it may be quoted as top prints it."`
	decisionFlags
}

// Run resets the key.
func (r *resetCommand) Run(ctx context.Context, c *console) error {
	target, err := r.open(ctx, true)
	if err != nil {
		return err
	}
	defer target.close()
	if err := target.reset(ctx, r.Policy, operatorKey(r.Policy, r.Key)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, "reset")
	return err
}

// unquoteKey undoes the quoting of a key that is written as top prints it: in quotes, with unprintable characters escaped. It returns
// any other key unchanged.
func unquoteKey(key string) string {
	if !strings.HasPrefix(key, `"`) {
		return key
	}
	if unquoted, err := strconv.Unquote(key); err == nil {
		return unquoted
	}
	return key
}

// operatorKey returns a key as an operator's commands send it: in quotes, as top prints it, it is the key that requests have. A key that
// is not UTF-8 stays in quotes, since JSON would change it; see policy.ReadKey. Envoy descriptors have one notation only.
func operatorKey(policy, key string) string {
	unquoted := unquoteKey(key)
	switch {
	case strings.HasPrefix(policy, gate.EnvoyPrefix):
		return unquoted
	case unquoted != key && utf8.ValidString(unquoted):
		return "=" + unquoted
	case unquoted != key:
		return "=" + strconv.Quote(unquoted)
	}
	return key
}

// decider makes decisions: a running service or a store.
type decider interface {
	decide(ctx context.Context, verb, policy, key string, cost int64) (decision, error)
	reset(ctx context.Context, policy, key string) error
	close()
}

// decision is a decision in the JSON format of the service.
type decision struct {
	Policy           string `json:"policy"`
	Allowed          bool   `json:"allowed"`
	By               string `json:"by,omitempty"`
	Limit            string `json:"limit"`
	Quota            int64  `json:"quota"`
	Remaining        int64  `json:"remaining"`
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	ResetAfterMicros int64  `json:"reset_after_us"`
	text             string // the JSON itself
}

// open returns the service or the store that the flags select. With admin, the default is the admin listener, where keys are reset.
func (f *decisionFlags) open(ctx context.Context, admin bool) (decider, error) {
	direct := len(f.Config) > 0 || f.Store != "" || len(f.Limit) > 0
	switch {
	case direct && f.serverTLS != serverTLS{}:
		return nil, errors.New("--ca, --cert, --key and --insecure apply to a service; leave them out for a store, whose URL sets up TLS")
	case direct && f.Server != "":
		return nil, errors.New("--server: cannot be combined with --config, --store or --limit, which access a store directly; leave one out")
	case direct && len(f.Config) == 0 && f.Store == "":
		return nil, errors.New("--limit: needs a store that has the counts; add --store URL, or leave out --limit to use the service")
	case direct:
		return f.openStore(ctx)
	}
	at := f.Server
	if at == "" && admin {
		at = adminURL
	} else if at == "" {
		at = publicURL
	}
	return newClient(at, f.Token, f.serverTLS)
}

func (f *decisionFlags) run(ctx context.Context, c *console, verb, key string, cost int64) error {
	if cost < 0 || cost > rule.MaxQuota {
		return fmt.Errorf("--cost: must be 0 to %d, not %d", int64(rule.MaxQuota), cost)
	}
	target, err := f.open(ctx, false)
	if err != nil {
		return err
	}
	defer target.close()
	a, err := target.decide(ctx, verb, f.Policy, key, cost)
	if err != nil {
		return err
	}
	if f.Format == "json" {
		_, err = fmt.Fprintln(c.out, strings.TrimSpace(a.text))
	} else {
		_, err = fmt.Fprintln(c.out, a.line())
	}
	if err == nil && !a.Allowed {
		err = errRefused
	}
	return err
}

// line formats the decision for a person.
func (a *decision) line() string {
	if a.By != "" && a.By != "limits" {
		return a.lineWithoutLimit()
	}
	if a.Allowed {
		return fmt.Sprintf("allowed: %d of %d left, resets in %v", a.Remaining, a.Quota, micros(a.ResetAfterMicros))
	}
	if a.RetryAfterMicros == nil {
		return fmt.Sprintf("refused by %s: it can never be admitted", a.Limit)
	}
	return fmt.Sprintf("refused by %s: %d of %d left, retry in %v", a.Limit, a.Remaining, a.Quota, micros(*a.RetryAfterMicros))
}

// lineWithoutLimit formats a decision that was made without a limit: by a list, a ruling, or an override without limits.
func (a *decision) lineWithoutLimit() string {
	by := strings.ReplaceAll(a.By, "_", " ")
	switch {
	case a.Allowed:
		return "allowed without limits: " + by
	case a.RetryAfterMicros == nil:
		return "refused by a " + by + ", with no end"
	}
	return fmt.Sprintf("refused by a %s: retry in %v", by, micros(*a.RetryAfterMicros))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// retryMicros returns a duration in microseconds, for JSON; nil means never.
func retryMicros(d time.Duration) *int64 {
	if d == slidegate.Never {
		return nil
	}
	n := d.Microseconds()
	return &n
}
