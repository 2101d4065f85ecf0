package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/rule"
)

// errRefused makes a command end with exitRefused. The command has printed the decision.
var errRefused = errors.New("refused")

// decisionFlags select the service that makes the decision.
type decisionFlags struct {
	Server string `placeholder:"URL" help:"URL of the service, or unix:/path. (default: http://127.0.0.1:8080, and http://127.0.0.1:8082 for reset)" group:"Service"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service." group:"Service"`
	serverTLS
	Policy string `placeholder:"NAME" help:"Name of the policy; envoy:DOMAIN for an Envoy descriptor, whose key is key=value,key=value. (default: the service's default policy)" group:"Service"`
	Format string `enum:"text,json" default:"text" help:"Output format: text, json." group:"Service"`
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
	service, err := newClient(cmp.Or(r.Server, adminURL), r.Token, r.serverTLS)
	if err != nil {
		return err
	}
	defer service.close()
	if err := service.reset(ctx, r.Policy, operatorKey(r.Policy, r.Key)); err != nil {
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
// is not UTF-8 stays in quotes, since JSON would change it; see keyform.Read. Envoy descriptors have one notation only.
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

// decision is a decision in the JSON format of the service.
type decision struct {
	Policy           string   `json:"policy"`
	Allowed          bool     `json:"allowed"`
	By               string   `json:"by,omitempty"`
	Limit            string   `json:"limit"`
	Quota            int64    `json:"quota"`
	Remaining        *int64   `json:"remaining"`      // null if no limit decided
	RetryAfterMicros *int64   `json:"retry_after_us"` // null means never
	ResetAfterMicros int64    `json:"reset_after_us"`
	Flags            []string `json:"flags,omitempty"`
	text             string   // the JSON itself
}

func (f *decisionFlags) run(ctx context.Context, c *console, verb, key string, cost int64) error {
	if cost < 0 || cost > rule.MaxQuota {
		return fmt.Errorf("--cost: must be 0 to %d, not %d", int64(rule.MaxQuota), cost)
	}
	service, err := newClient(cmp.Or(f.Server, publicURL), f.Token, f.serverTLS)
	if err != nil {
		return err
	}
	defer service.close()
	a, err := service.decide(ctx, verb, f.Policy, key, cost)
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
	mode := fallbackMode(a.Flags)
	if a.Remaining == nil {
		outcome := "refused"
		if a.Allowed {
			outcome = "allowed"
		}
		return outcome + " by failure mode " + mode + ": the store does not answer, so nothing was counted"
	}
	note := ""
	switch {
	case mode != "" && slices.Contains(a.Flags, "cached"):
		note = "; the store does not answer, and has refused this before"
	case mode != "":
		note = "; the store does not answer, so failure mode " + mode + " decided"
	}
	if a.Allowed {
		return fmt.Sprintf("allowed: %d of %d left, resets in %v%s", *a.Remaining, a.Quota, micros(a.ResetAfterMicros), note)
	}
	if a.RetryAfterMicros == nil {
		return fmt.Sprintf("refused by %s: it can never be admitted%s", a.Limit, note)
	}
	return fmt.Sprintf("refused by %s: %d of %d left, retry in %v%s", a.Limit, *a.Remaining, a.Quota, micros(*a.RetryAfterMicros), note)
}

// fallbackMode returns the failure mode that decided, or "" if the store did.
func fallbackMode(flags []string) string {
	for _, flag := range flags {
		if mode, ok := strings.CutPrefix(flag, "fallback_"); ok {
			return mode
		}
	}
	return ""
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
