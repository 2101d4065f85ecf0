package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/server/rulings"
)

// explainCommand shows what decides about a key.
type explainCommand struct {
	Key    string `arg:"" help:"Who would ask, also as top prints it; with --policy envoy:DOMAIN, a descriptor: key=value,key=value."`
	Cost   uint64 `default:"1" help:"How many units would be taken."`
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"The admin door of the service. (default: http://127.0.0.1:8082)"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"The token to show the service."`
	serverTLS
	Policy string `placeholder:"NAME" help:"The policy; envoy:DOMAIN for a descriptor of Envoy. (default: the service's)"`
	Plan   string `placeholder:"NAME" help:"The plan that the request would have, where the policy has plans that requests name."`
	Format string `enum:"text,json" default:"text" help:"How to print the answer: text, json."`
}

// explanation is what the service answers.
type explanation struct {
	Policy    string
	By        string
	Refused   bool
	Shadow    bool
	List      string
	Override  string
	Ruling    *rulings.Ruling
	Plan      string
	Limits    []explainedLimit
	Candidate []explainedLimit
	Rule      string
	Path      string
	QuotaMode bool `json:"quota_mode"`
	Brought   []explainedLimit
	Note      string
}

type explainedLimit struct {
	Limit            string
	Allowed          bool
	Quota, Remaining int64
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	ResetAfterMicros int64  `json:"reset_after_us"`
}

// Run asks, and tells.
func (e *explainCommand) Run(ctx context.Context, c *console) error {
	asked, err := newClient(e.Server, e.Token, e.serverTLS)
	if err != nil {
		return err
	}
	defer asked.close()
	query := url.Values{"key": {asPrinted(e.Key)}, "cost": {strconv.FormatUint(e.Cost, 10)}}
	if e.Policy != "" {
		query.Set("policy", e.Policy)
	}
	if e.Plan != "" {
		query.Set("plan", e.Plan)
	}
	status, text, err := asked.send(ctx, http.MethodGet, "/v1/explain?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return asked.adminProblem(status, text)
	}
	if e.Format == "json" {
		_, err := fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		return err
	}
	var told explanation
	if err := json.Unmarshal(text, &told); err != nil {
		return fmt.Errorf("%s: this is not an answer of a Slidegate service: %w", asked.base, err)
	}
	_, err = io.WriteString(c.out, told.String())
	return err
}

// String is the answer as a person reads it.
func (e *explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy     %s\n", e.Policy)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, value)
		}
	}
	line("rule", e.Rule)
	if e.Path != e.Rule {
		line("path", e.Path)
	}
	if e.Ruling != nil {
		line("ruling", effect(e.Ruling, time.Now())+by(e.Ruling))
	}
	line("override", e.Override)
	line("plan", e.Plan)
	line("list", e.List)
	line("note", e.Note)
	line("answer", e.outcome()+e.reason())
	writeLimits(&b, "limit", e.Limits)
	writeLimits(&b, "candidate", e.Candidate)
	writeLimits(&b, "brought", e.Brought)
	return b.String()
}

// reason is what decides.
func (e *explanation) reason() string {
	if e.By == "unlimited" {
		return ": no limit applies"
	}
	return ", by its " + strings.ReplaceAll(e.By, "_", " ")
}

// outcome is what a client would be told.
func (e *explanation) outcome() string {
	switch {
	case e.Refused && e.Shadow:
		return "allowed, because this only watches; it would be refused"
	case e.Refused && e.QuotaMode:
		return "over its limit, and in quota mode: refused if all such rules of a request are"
	case e.Refused:
		return "refused"
	}
	return "allowed"
}

func writeLimits(to io.Writer, name string, limits []explainedLimit) {
	for _, l := range limits {
		fmt.Fprintf(to, "%-10s %s: %d of %d left, ", name, l.Limit, l.Remaining, l.Quota)
		switch {
		case l.Allowed:
			fmt.Fprintf(to, "all free again in %v\n", micros(l.ResetAfterMicros))
		case l.RetryAfterMicros == nil:
			fmt.Fprintln(to, "and it can never be admitted")
		default:
			fmt.Fprintf(to, "come back in %v\n", micros(*l.RetryAfterMicros))
		}
	}
}
