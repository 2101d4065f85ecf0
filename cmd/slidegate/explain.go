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

	"github.com/slidegate/slidegate/cmd/slidegate/internal/gate"
	"github.com/slidegate/slidegate/rule"
)

// explainCommand shows what decides the requests of a key.
type explainCommand struct {
	Key     string   `arg:"" optional:"" help:"The key to explain, as the page and the logs show it."`
	Request string   `placeholder:"'POST /login'" help:"Explain an HTTP request instead of a key: which policies match it, by which keys, and what they decide."`
	Header  []string `sep:"none" placeholder:"'NAME: VALUE'" help:"Header of the request. Repeat the flag for several."`
	Address string   `placeholder:"IP" help:"Address of the request's client."`

	Cost   uint64 `default:"1" help:"Number of units the request would cost."`
	Policy string `placeholder:"NAME" help:"Name of the policy. (default: the service's default policy)"`
	Plan   string `placeholder:"NAME" help:"Plan of the request, for policies whose requests name their plan."`
	serviceFlags
}

// explanation is the response of the service. By is only read as a text.
type explanation struct {
	gate.Explanation
	By string `json:"by"`

	kept []gate.LimitState // what the store keeps, for each limit; empty if that is not known
}

// requestExplanation is the response of the service about a request.
type requestExplanation struct {
	gate.RequestExplanation
	By       string        `json:"by"`
	Policies []explanation `json:"policies"`
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
	query := url.Values{"key": {operatorKey(e.Key)}, "cost": {strconv.FormatUint(e.Cost, 10)}}
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
	if reply.Source != "" && !strings.HasPrefix(reply.Source, "fallback_") { // otherwise the store would not answer
		e.addKept(ctx, c, query, &reply)
	}
	_, err := io.WriteString(c.out, reply.String())
	return err
}

// addKept adds what the store keeps to an explanation. It is only more detail, so an error leaves it out.
func (e *explainCommand) addKept(ctx context.Context, c *console, query url.Values, to *explanation) {
	var found struct{ Limits []gate.LimitState }
	if _, err := e.send(ctx, c, http.MethodGet, "/v1/state?"+query.Encode(), nil, &found); err != nil {
		return
	}
	to.kept = found.Limits
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
	if e.Source == "fallback_local" {
		line("note", "what is left is by the count of this instance alone, since the store began not to answer")
	}
	for i := range e.Limits {
		writeLimits(&b, "limit", e.Limits[i:i+1])
		if i < len(e.kept) {
			line("frees", freed(&e.kept[i]))
		}
	}
	return b.String()
}

// reason describes what made the decision.
func (e *explanation) reason() string {
	switch {
	case e.By == "unlimited":
		return ": no limit applies"
	case strings.HasPrefix(e.Source, "fallback_"):
		return ", by failure mode " + strings.TrimPrefix(e.Source, "fallback_") + ", because the store does not answer"
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
	case e.Refused:
		return "refused"
	}
	return "allowed"
}

func writeLimits(to io.Writer, name string, limits []gate.ExplainedLimit) {
	for _, l := range limits {
		if l.Remaining == nil {
			fmt.Fprintf(to, "%-10s %s: what is left is not known\n", name, l.Limit)
			continue
		}
		fmt.Fprintf(to, "%-10s %s: %s, ", name, l.Limit, left(*l.Remaining, l.Quota, l.Limit))
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

// freed describes when what was used of a limit is free again: the first of it, and the rest; empty if nothing was used.
func freed(l *gate.LimitState) string {
	const most = 3
	var parts []string
	in := func(at rule.Micros) time.Duration { return micros(int64(at - l.Now)) }
	switch n := len(l.Units); {
	case l.Form == "bucket" && n > 0:
		parts = append(parts, fmt.Sprintf("%d one after another, the last in %v", l.Units[0].Counts, in(l.Units[0].Frees)))
	default:
		for _, u := range l.Units[:min(n, most)] {
			parts = append(parts, fmt.Sprintf("%d in %v", u.Counts, in(u.Frees)))
		}
		if n > most {
			more := int64(0)
			for _, u := range l.Units[most:] {
				more += u.Counts
			}
			parts = append(parts, fmt.Sprintf("%d more within %v", more, in(l.Units[n-1].Frees)))
		}
	}
	if n := len(l.Holds); n > 0 {
		held := int64(0)
		for _, h := range l.Holds {
			held += h.Units
		}
		parts = append(parts, fmt.Sprintf("%d when settled, or in at most %v", held, in(l.Holds[n-1].Ends)))
	}
	return strings.Join(parts, ", ")
}

// runRequest explains a request.
func (e *explainCommand) runRequest(ctx context.Context, c *console) error {
	method, at, both := strings.Cut(e.Request, " ")
	if !both {
		method, at = http.MethodGet, e.Request
	}
	if e.Policy != "" || e.Plan != "" || e.Cost != 1 {
		return fmt.Errorf("--policy, --plan and --cost are for keys: the policies that match a request, its plan and cost follow from the file")
	}
	headers := http.Header{}
	for _, text := range e.Header {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("--header: must be a name and a value, such as 'X-User: alice'")
		}
		headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	body := map[string]any{"method": method, "url": strings.TrimSpace(at), "headers": headers, "address": e.Address}
	var reply requestExplanation
	if printed, err := e.send(ctx, c, http.MethodPost, "/v1/explain/request", body, &reply); printed || err != nil {
		return err
	}
	_, err := io.WriteString(c.out, reply.String())
	return err
}

// String formats the explanation for a person.
func (e *requestExplanation) String() string {
	var b strings.Builder
	switch {
	case e.Rejected != "":
		fmt.Fprintf(&b, "rejected, whatever the policies decide: %s\n", e.Rejected)
	case len(e.Policies) == 0:
		fmt.Fprintln(&b, "allowed: no policy matches this request")
	case e.Allowed:
		fmt.Fprintln(&b, "allowed")
	default:
		by, why := strings.ReplaceAll(e.By, "_", " "), ""
		if mode, is := strings.CutPrefix(e.Source, "fallback_"); is {
			by, why = "failure mode "+mode, ", because the store does not answer"
		}
		fmt.Fprintf(&b, "refused, by the %s of the policy %s%s", by, e.Policy, why)
		if e.RetryAfterMicros != nil {
			fmt.Fprintf(&b, "; retry in %v", micros(*e.RetryAfterMicros))
		}
		fmt.Fprintln(&b)
	}
	for i := range e.Policies {
		fmt.Fprintf(&b, "\n%s", &e.Policies[i])
	}
	if len(e.Exempting) > 0 {
		fmt.Fprintf(&b, "\nexempt from: %s\n", strings.Join(e.Exempting, ", "))
	}
	if len(e.NotMatching) > 0 {
		fmt.Fprintf(&b, "\nnot matching: %s\n", strings.Join(e.NotMatching, ", "))
	}
	return b.String()
}
