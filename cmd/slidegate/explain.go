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

// explainCommand shows what decides the requests of a key.
type explainCommand struct {
	Key    string `arg:"" help:"The key to explain; it may be quoted as top prints it. With --policy envoy:DOMAIN, a descriptor: key=value,key=value."`
	Cost   uint64 `default:"1" help:"Number of units the request would cost."`
	Server string `default:"http://127.0.0.1:8082" placeholder:"URL" help:"URL of the service's admin listener. (default: http://127.0.0.1:8082)"`
	Token  string `env:"SLIDEGATE_TOKEN" placeholder:"TOKEN" help:"Token to send to the service."`
	serverTLS
	Policy string `placeholder:"NAME" help:"Name of the policy; envoy:DOMAIN for an Envoy descriptor. (default: the service's default policy)"`
	Plan   string `placeholder:"NAME" help:"Plan of the request, for policies whose requests name their plan."`
	Format string `enum:"text,json" default:"text" help:"Output format: text, json."`
}

// explanation is the response of the service.
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

// Run prints the explanation.
func (e *explainCommand) Run(ctx context.Context, c *console) error {
	service, err := newClient(e.Server, e.Token, e.serverTLS)
	if err != nil {
		return err
	}
	defer service.close()
	query := url.Values{"key": {unquoteKey(e.Key)}, "cost": {strconv.FormatUint(e.Cost, 10)}}
	if e.Policy != "" {
		query.Set("policy", e.Policy)
	}
	if e.Plan != "" {
		query.Set("plan", e.Plan)
	}
	status, text, err := service.send(ctx, http.MethodGet, "/v1/explain?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return service.adminProblem(status, text)
	}
	if e.Format == "json" {
		_, err := fmt.Fprintln(c.out, strings.TrimSpace(string(text)))
		return err
	}
	var reply explanation
	if err := json.Unmarshal(text, &reply); err != nil {
		return fmt.Errorf("%s: the response is not from a Slidegate service: %w", service.base, err)
	}
	_, err = io.WriteString(c.out, reply.String())
	return err
}

// String formats the explanation for a person.
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
		line("ruling", effect(e.Ruling, time.Now())+decidedBy(e.Ruling))
	}
	line("override", e.Override)
	line("plan", e.Plan)
	line("list", e.List)
	line("note", e.Note)
	line("decision", e.outcome()+e.reason())
	writeLimits(&b, "limit", e.Limits)
	writeLimits(&b, "candidate", e.Candidate)
	writeLimits(&b, "brought", e.Brought)
	return b.String()
}

// reason describes what made the decision.
func (e *explanation) reason() string {
	if e.By == "unlimited" {
		return ": no limit applies"
	}
	return ", by its " + strings.ReplaceAll(e.By, "_", " ")
}

// outcome is the decision that a client would get.
func (e *explanation) outcome() string {
	switch {
	case e.Refused && e.Shadow:
		return "allowed, because of shadow mode; it would be refused otherwise"
	case e.Refused && e.QuotaMode:
		return "over its limit, in quota mode: refused if all quota-mode rules of the request are over their limits"
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
			fmt.Fprintf(to, "resets in %v\n", micros(l.ResetAfterMicros))
		case l.RetryAfterMicros == nil:
			fmt.Fprintln(to, "can never be admitted")
		default:
			fmt.Fprintf(to, "retry in %v\n", micros(*l.RetryAfterMicros))
		}
	}
}
