package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/slidegate/slidegate/rulings"
)

// explainCommand shows what decides the requests of a key.
type explainCommand struct {
	Key     string   `arg:"" optional:"" help:"Whose requests to explain: a user, an address, or a key in quotes as top prints it. With --policy envoy:DOMAIN, a descriptor: key=value,key=value."`
	Request string   `placeholder:"'POST /login'" help:"Explain an HTTP request instead of a key: which policies match it, by which keys, and what they decide."`
	Header  []string `sep:"none" placeholder:"'NAME: VALUE'" help:"Header of the request. Repeat the flag for several."`
	Address string   `placeholder:"IP" help:"Address of the request's client."`

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
	Key       string
	By        string
	Refused   bool
	Shadow    bool
	List      string
	Override  string
	Ruling    *rulings.Ruling
	Plan      string
	Penalty   int64 `json:"penalty_us"`
	Limits    []explainedLimit
	Candidate []explainedLimit
	Rule      string
	Path      string
	QuotaMode bool `json:"quota_mode"`
	Brought   []explainedLimit
	Note      string
	Missing   []string
	Also      []explanation
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
	switch {
	case (e.Key == "") == (e.Request == ""):
		return errors.New("give a key, or --request with --header and --address")
	case e.Request != "":
		return e.runRequest(ctx, c)
	case len(e.Header) > 0 || e.Address != "":
		return errors.New("--header and --address describe a request; give --request too, such as --request 'POST /login'")
	}
	query := url.Values{"key": {operatorKey(e.Policy, e.Key)}, "cost": {strconv.FormatUint(e.Cost, 10)}}
	if e.Policy != "" {
		query.Set("policy", e.Policy)
	}
	if e.Plan != "" {
		query.Set("plan", e.Plan)
	}
	var reply explanation
	if printed, err := e.send(ctx, c, http.MethodGet, "/v1/explain?"+query.Encode(), nil, &reply); printed || err != nil {
		return err
	}
	text := reply.String()
	for i := range reply.Also {
		text += "\n" + reply.Also[i].String()
	}
	_, err := io.WriteString(c.out, text)
	return err
}

// send sends a request to the service and decodes the response into reply, or prints the JSON if that is the output format.
func (e *explainCommand) send(ctx context.Context, c *console, method, path string, body, reply any) (printed bool, err error) {
	flags := printingFlags{adminFlags: adminFlags{Server: e.Server, Token: e.Token, serverTLS: e.serverTLS}, Format: e.Format}
	return flags.send(ctx, c, method, path, body, reply)
}

// String formats the explanation for a person.
func (e *explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy     %s\n", e.Policy)
	fmt.Fprintf(&b, "key        %q\n", e.Key)
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
		line("ruling", fmt.Sprintf("%q: %s%s", e.Ruling.Key, effect(e.Ruling, time.Now()), decidedBy(e.Ruling)))
	}
	for _, missing := range e.Missing {
		line("missing", missing)
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
	switch {
	case e.By == "unlimited":
		return ": no limit applies"
	case e.Penalty > 0:
		return fmt.Sprintf(", by its penalty, which lasts another %v", micros(e.Penalty))
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
