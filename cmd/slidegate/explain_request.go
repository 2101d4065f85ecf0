package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// requestExplanation is the response of the service about a request.
type requestExplanation struct {
	Allowed          bool
	Rejected         string
	Policy           string
	By               string
	RetryAfterMicros *int64 `json:"retry_after_us"` // null means never
	Policies         []explanation
	Exempting        []string `json:"exempting"`
	NotMatching      []string `json:"not_matching"`
}

// runRequest explains a request.
func (e *explainCommand) runRequest(ctx context.Context, c *console) error {
	method, at, both := strings.Cut(e.Request, " ")
	if !both {
		method, at = http.MethodGet, e.Request
	}
	if e.Policy != "" || e.Plan != "" || e.Cost != 1 {
		return fmt.Errorf("--policy, --plan and --cost are for keys: the policies that match a request, its plan and its cost follow from the file")
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
	case e.RetryAfterMicros == nil:
		fmt.Fprintf(&b, "refused, by the %s of the policy %s\n", strings.ReplaceAll(e.By, "_", " "), e.Policy)
	default:
		fmt.Fprintf(&b, "refused, by the %s of the policy %s; retry in %v\n", strings.ReplaceAll(e.By, "_", " "), e.Policy, micros(*e.RetryAfterMicros))
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
