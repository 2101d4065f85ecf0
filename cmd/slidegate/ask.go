package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// errRefused makes a command end with exitRefused. It has been told already.
var errRefused = errors.New("refused")

// askFlags say whom to ask: a running service, or a store directly.
type askFlags struct {
	Server string `placeholder:"URL" help:"The service to ask, or unix:/path. (default: http://127.0.0.1:8080, and http://127.0.0.1:8082 to reset)" group:"Whom to ask"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"The token to show the service." group:"Whom to ask"`
	serverTLS
	Policy string `option:"config.policy" placeholder:"NAME" help:"The policy; envoy:DOMAIN for a descriptor of Envoy, whose key is key=value,key=value. (default: the service's or the file's)" group:"Whom to ask"`
	Format string `enum:"text,json" default:"text" help:"How to print the answer: text, json." group:"Whom to ask"`

	Store  string   `option:"stores.URL config.store" file:"store" placeholder:"URL" help:"A store that is shared, as the service has it: redis://HOST:PORT, postgres://..., nats://HOST:PORT, memcached://HOST:PORT" group:"To ask a store itself, without a service"`
	Limit  []string `option:"gate.limits" placeholder:"100/1m" sep:"none" help:"The limit that its keys face. Repeat it for several at once. (default: 100/1m)" group:"To ask a store itself, without a service"`
	Config []string `placeholder:"FILE" sep:"none" help:"A file of policies, which says both, or a folder of such files. Repeat it for several." group:"To ask a store itself, without a service"`
}

// allowCommand takes units.
type allowCommand struct {
	Key  string `arg:"" help:"Who asks."`
	Cost int64  `default:"1" help:"How many units to take."`
	askFlags
}

// Run asks, and tells.
func (a *allowCommand) Run(ctx context.Context, c *console) error {
	return a.askFlags.ask(ctx, c, "allow", asPrinted(a.Key), a.Cost)
}

// peekCommand looks without taking.
type peekCommand struct {
	Key  string `arg:"" help:"Who would ask."`
	Cost int64  `default:"1" help:"How many units would be taken."`
	askFlags
}

// Run asks, and tells.
func (p *peekCommand) Run(ctx context.Context, c *console) error {
	return p.askFlags.ask(ctx, c, "peek", asPrinted(p.Key), p.Cost)
}

// chargeCommand charges what has been used already.
type chargeCommand struct {
	Key  string `arg:"" help:"Who has used them."`
	Cost int64  `default:"1" help:"How many units were used."`
	askFlags
}

// Run charges, and tells what is left.
func (a *chargeCommand) Run(ctx context.Context, c *console) error {
	if a.Cost == 0 {
		return fmt.Errorf("--cost: must be 1 to %d, not 0", int64(rule.MaxQuota))
	}
	return a.askFlags.ask(ctx, c, "charge", a.Key, a.Cost)
}

// resetCommand forgets what a key has used.
type resetCommand struct {
	Key string `arg:"" help:"Whose counts to forget, also as top prints it."`
	askFlags
}

// Run asks, and tells.
func (r *resetCommand) Run(ctx context.Context, c *console) error {
	asked, err := r.open(ctx, true)
	if err != nil {
		return err
	}
	defer asked.close()
	if err := asked.reset(ctx, r.Policy, asPrinted(r.Key)); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, "reset")
	return err
}

// asPrinted returns the key that was meant by one that is written as top prints it: in quotes, with what is not printable escaped.
// Any other key is itself.
func asPrinted(key string) string {
	if !strings.HasPrefix(key, `"`) {
		return key
	}
	if meant, err := strconv.Unquote(key); err == nil {
		return meant
	}
	return key
}

// asked is whom a command asks.
type asked interface {
	ask(ctx context.Context, verb, policy, key string, cost int64) (answer, error)
	reset(ctx context.Context, policy, key string) error
	close()
}

// answer is what was answered.
type answer struct {
	Policy           string `json:"policy"`
	Allowed          bool   `json:"allowed"`
	By               string `json:"by,omitempty"` // of a service
	Limit            string `json:"limit"`
	Quota            int64  `json:"quota"`
	Remaining        int64  `json:"remaining"`
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	ResetAfterMicros int64  `json:"reset_after_us"`
	text             string // as the service wrote it
}

// open returns whom the flags mean. The admin door is where keys are reset.
func (f *askFlags) open(ctx context.Context, admin bool) (asked, error) {
	direct := len(f.Config) > 0 || f.Store != "" || len(f.Limit) > 0
	switch {
	case direct && f.serverTLS != serverTLS{}:
		return nil, errors.New("--ca, --cert, --key and --insecure are for a service: leave them out to ask a store, whose URL says how")
	case direct && f.Server != "":
		return nil, errors.New("--server: ask the service, or with --config, --store or --limit a store itself, not both")
	case direct && len(f.Config) == 0 && f.Store == "":
		return nil, errors.New("--limit: a limit by itself has no counts to look at: add --store URL, or leave it out to ask the service")
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

func (f *askFlags) ask(ctx context.Context, c *console, verb, key string, cost int64) error {
	if cost < 0 || cost > rule.MaxQuota {
		return fmt.Errorf("--cost: must be 0 to %d, not %d", int64(rule.MaxQuota), cost)
	}
	asked, err := f.open(ctx, false)
	if err != nil {
		return err
	}
	defer asked.close()
	a, err := asked.ask(ctx, verb, f.Policy, key, cost)
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

// line is the answer as a person reads it.
func (a *answer) line() string {
	if a.By != "" && a.By != "limits" {
		return a.unasked()
	}
	if a.Allowed {
		return fmt.Sprintf("allowed: %d of %d left, all free again in %v", a.Remaining, a.Quota, micros(a.ResetAfterMicros))
	}
	if a.RetryAfterMicros == nil {
		return fmt.Sprintf("refused by %s: it can never be admitted", a.Limit)
	}
	return fmt.Sprintf("refused by %s: %d of %d left, come back in %v", a.Limit, a.Remaining, a.Quota, micros(*a.RetryAfterMicros))
}

// unasked is the answer where no limit was asked: because of a list, a ruling, or an override without limits.
func (a *answer) unasked() string {
	by := strings.ReplaceAll(a.By, "_", " ")
	switch {
	case a.Allowed:
		return "allowed without limits: " + by
	case a.RetryAfterMicros == nil:
		return "refused by a " + by + ", without an end"
	}
	return fmt.Sprintf("refused by a %s: come back in %v", by, micros(*a.RetryAfterMicros))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// micro is a length of time for JSON; nil means never.
func micro(d time.Duration) *int64 {
	if d == slidegate.Never {
		return nil
	}
	n := d.Microseconds()
	return &n
}
