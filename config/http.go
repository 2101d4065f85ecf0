package config

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// HTTP returns options for httplimit with the policies, the trusted proxies, the failure mode and the timeout of a file, so
// that a program decides HTTP requests as the service does. The store is the caller's: the file's URL is for the service
// alone.
func HTTP(file *File) (opts httplimit.Options, err error) {
	if opts.Client, err = file.Service.Client(); err != nil {
		return opts, err
	}
	opts.Timeout, opts.Failure = file.Service.StoreTimeout, modeOf[file.Service.Failure]
	for i := range file.Policies {
		p, err := file.Policies[i].HTTP(opts.Client)
		if err != nil {
			return opts, err
		}
		opts.Policies = append(opts.Policies, p)
	}
	return opts, nil
}

// modeOf are the failure modes by their words in a file.
var modeOf = map[string]policy.Mode{FailOpen: policy.Open, FailLocal: policy.Local, FailClosed: policy.Closed}

// Client returns what finds the addresses of clients behind the trusted proxies, which write X-Forwarded-For; nil if the
// file names none, and then the client is whoever is connected.
func (s *Service) Client() (*clientip.Source, error) {
	if len(s.TrustedProxies) == 0 {
		return nil, nil
	}
	source, err := clientip.New(clientip.Options{Trusted: s.TrustedProxies, Header: "X-Forwarded-For"})
	if err != nil {
		return nil, fmt.Errorf("config: trusted_proxies: %w", err)
	}
	return source, nil
}

// Rules returns what the policy engine needs to know of the policy. Fallback is the failure mode in a policy that has none,
// as Service.Failure has it.
func (p *Policy) Rules(fallback string) (policy.Policy, error) {
	word := p.Failure
	if word == "" {
		word = fallback
	}
	mode, known := modeOf[word]
	if !known && word != "" {
		return policy.Policy{}, fmt.Errorf("config: policy %q: failure: %q: must be open, closed or local", p.Name, word)
	}
	return policy.Policy{
		Name: p.Name, Limits: p.Limits, Overrides: p.Overrides, Allow: p.Allow, Deny: p.Deny, Shadow: p.Shadow,
		Candidate: p.Candidate, Failure: mode,
	}, nil
}

// HTTP returns the policy for httplimit. Client finds the addresses of clients. A key or a cost that only recorded traffic
// has is an error.
//
// The fields of a request: address is what client finds; method is as the client wrote it, and host in lower case and
// without a trailing dot; path is cleaned as http.ServeMux does; a header that is there more than once is its first line. A
// user is known only if the application has verified one and says so by WithUser: what a client writes into an
// Authorization header is nobody's name until somebody has checked the password, and a client could otherwise choose a new
// key at every request, or use up the quota of another. Likewise key is what WithKey says. Where they are missing, all
// requests share one key.
func (p *Policy) HTTP(client *clientip.Source) (made httplimit.Policy, err error) {
	rules, err := p.Rules("")
	if err != nil {
		return made, err
	}
	fields := p.Key.Fields()
	for _, field := range fields {
		if field.Kind == FieldStatus || field.Kind == FieldJSON {
			return made, fmt.Errorf("config: policy %q: key: {%v} is known in recorded traffic only; use address, user, key, header:NAME, "+
				"method, path, query or host", p.Name, field)
		}
	}
	cost, fixed := p.Cost.Fixed()
	if field, named := p.Cost.Field(); named {
		return made, fmt.Errorf("config: policy %q: cost: %v is known in recorded traffic only; write a number", p.Name, field)
	}
	made = httplimit.Policy{
		Name: p.Name, Match: p.Match, Limits: p.Limits, Overrides: p.Overrides, Allow: p.Allow, Deny: p.Deny, Shadow: p.Shadow,
		Candidate: p.Candidate, Failure: rules.Failure,
	}
	made.Key = func(r *http.Request) string { return keyOf(p.Key, fields, client, r) }
	if fixed && cost != 1 {
		made.Cost = func(*http.Request) int64 { return cost }
	}
	return made, nil
}

type (
	userKey struct{}
	keyKey  struct{}
)

// WithUser says who the user of a request is, for templates with {user}. Only code that has verified the user may say so: by
// a client certificate, say, or by a header that only a trusted proxy can have written.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// WithKey says what {key} is in templates: a key that a trusted proxy or the application has chosen by its own means.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// keyOf makes the key of a request by a template.
func keyOf(t Template, fields []Field, client *clientip.Source, r *http.Request) string {
	var room [128]byte
	var values [8][]byte
	list := values[:0]
	for _, field := range fields {
		list = append(list, valueOf(field, client, r))
	}
	return string(t.AppendKey(room[:0], list))
}

// valueOf returns the value of a field, or nil if it is missing.
func valueOf(field Field, client *clientip.Source, r *http.Request) []byte {
	switch field.Kind {
	case FieldAddress:
		return []byte(client.Key(r))
	case FieldUser:
		return said(r.Context(), userKey{})
	case FieldKey:
		return said(r.Context(), keyKey{})
	case FieldMethod:
		if r.Method == "" { // a request of a client, by the documentation of http.Request
			return []byte(http.MethodGet)
		}
		return []byte(r.Method)
	case FieldPath:
		return []byte(cleaned(r.URL.Path))
	case FieldQuery:
		return []byte(r.URL.RawQuery)
	case FieldHost:
		return []byte(hostOf(r))
	case FieldHeader:
		if strings.EqualFold(field.Name, "Host") { // net/http takes it out of the headers
			return []byte(hostOf(r))
		}
		if values := r.Header[field.Name]; len(values) > 0 {
			return []byte(values[0])
		}
	}
	return nil
}

// hostOf returns the host in lower case and without a dot at its end: another spelling of it must not be another key. The
// port is left as it is.
func hostOf(r *http.Request) string {
	name, port := r.Host, ""
	if colon := strings.LastIndexByte(name, ':'); colon >= 0 && !strings.HasSuffix(name, "]") {
		name, port = name[:colon], name[colon:]
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")) + port
}

func said(ctx context.Context, what any) []byte {
	if text, ok := ctx.Value(what).(string); ok {
		return []byte(text)
	}
	return nil
}

// cleaned returns a path as http.ServeMux takes it: otherwise //login would be another key than /login.
func cleaned(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] != '/' {
		p = "/" + p
	}
	clean := path.Clean(p)
	if p[len(p)-1] == '/' && clean != "/" {
		clean += "/"
	}
	return clean
}
