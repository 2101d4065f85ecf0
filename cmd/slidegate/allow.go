package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/rule"
)

// errRefused makes a command end with exitRefused. The command has printed the decision.
var errRefused = errors.New("refused")

// keyFlags select the key of a policy in a running service.
type keyFlags struct {
	Policy string `placeholder:"NAME" help:"Name of the policy. (default: the service's default policy)" group:"Service"`
	serviceFlags
}

// decideCommand has a service decide a request: it is the commands allow, peek and charge.
type decideCommand struct {
	Key  string `arg:"" help:"The key ${key}."`
	Cost int64  `default:"1" help:"Number of units ${cost}."`
	//lint:ignore SA5008 kong takes several
	keyFlags `set:"server=http://127.0.0.1:8080" set:"listener=the service"`
}

// Run prints the decision.
func (d *decideCommand) Run(ctx context.Context, c *console) error {
	if d.Cost < 0 || d.Cost > rule.MaxQuota {
		return fmt.Errorf("--cost: must be 0 to %d, not %d", int64(rule.MaxQuota), d.Cost)
	}
	var reply decision
	body := map[string]any{"policy": d.Policy, "key": unquoteKey(d.Key), "cost": d.Cost}
	path := "/v1/" + c.node.Name
	printed, err := d.send(ctx, c, http.MethodPost, path, body, &reply)
	if err == nil && reply.Policy == "" { // JSON, but not a decision: a refusal by a proxy, or a response of the application behind it
		return fmt.Errorf("%s: the response is not from a Slidegate service%s", d.Server, proxyHint(path))
	}
	if err == nil && !printed {
		_, err = fmt.Fprintln(c.out, reply.line())
	}
	if err == nil && !reply.Allowed {
		err = errRefused
	}
	return err
}

// unquoteKey undoes the quoting of a key that is written as commands print it: in quotes, with unprintable characters escaped. It returns
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

// operatorKey is unquoteKey for operators' commands: a key that is not UTF-8 stays in quotes, since JSON would change it; see keyform.Read.
func operatorKey(key string) string {
	if unquoted := unquoteKey(key); utf8.ValidString(unquoted) {
		return unquoted
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
	case slices.Contains(a.Flags, "not_durable"):
		note = "; not durable: the state folder cannot be written now, so a crash would forget this"
	}
	left := left(*a.Remaining, a.Quota, a.Limit)
	if a.Allowed {
		return fmt.Sprintf("allowed: %s, resets in %v%s", left, micros(a.ResetAfterMicros), note)
	}
	if a.RetryAfterMicros == nil {
		return fmt.Sprintf("refused by %s: it can never be admitted%s", a.Limit, note)
	}
	return fmt.Sprintf("refused by %s: %s, retry in %v%s", a.Limit, left, micros(*a.RetryAfterMicros), note)
}

// left describes what is left of a limit, which is given by its text or its name: of the quota or, for a token bucket, of the burst.
func left(remaining, quota int64, text string) string {
	if limit, err := slidegate.ParseLimit(text); err == nil && limit.Burst > 0 {
		quota = limit.Burst
	}
	if remaining > quota { // a bucket that is given by its name
		return fmt.Sprintf("%d left", remaining)
	}
	return fmt.Sprintf("%d of %d left", remaining, quota)
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
