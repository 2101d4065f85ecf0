package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config/claims"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/policy"
)

// HTTP returns options for httplimit from the policies, trusted proxies, address groups, failure mode, optimism and timeout of
// a file, so that a program decides HTTP requests as the service does. A key or a cost that exists in recorded traffic only is
// an error. The caller provides the store: the file's URL is used by the service only.
//
// The trusted proxies write X-Forwarded-For; if the file names none, the address is that of the connection. The fields of a
// request are: address, the client's; method, in capitals; host, in lower case, without a trailing dot and without the port, as
// from httplimit.CanonicalHost; path, as from httplimit.CanonicalPath; and headers. A header that is sent more than once counts as
// missing, since servers disagree about which line applies; the service rejects such requests. As a cost, its highest line counts.
// A user is known only if the application has verified one and passes it by WithUser: a name in an Authorization header proves
// nothing until the password has been checked, and a client could otherwise choose a new key for every request, or use up the
// quota of another. Likewise, key is what WithKey passes. A claim is taken from a bearer token that Service.JWT verifies. A
// missing or empty user, key, claim or header is replaced by the address of the client; see Template.AppendKeyOr.
func HTTP(file *File) (opts httplimit.Options, err error) {
	if err := checkGroups(file.Service.AddressGroups); err != nil {
		return opts, err
	}
	client := clientip.Options{Grouping: file.Service.AddressGroups}
	if proxies := file.Service.TrustedProxies; len(proxies) > 0 {
		client.Trusted, client.Header = proxies, "X-Forwarded-For"
	}
	if opts.Client, err = clientip.New(client); err != nil {
		return opts, &OptionError{Package: "config", Option: "trusted_proxies", Err: err}
	}
	opts.Timeout, opts.Optimism = file.Service.StoreTimeout, file.Service.Optimism
	if opts.Failure, err = modeOf(file.Service.Failure); err != nil {
		return opts, err
	}
	if err := file.checkJWT(); err != nil {
		return opts, err
	}
	from := &source{client: opts.Client}
	if from.claims, err = file.Service.JWT.reader(file.claimPaths()); err != nil {
		field, text := jwtProblem(err)
		return opts, invalid("jwt", "%s: %s", field, strings.TrimPrefix(text, field+": "))
	}
	var problems []error
	for i := range file.Policies {
		p, err := file.Policies[i].http(from)
		problems = append(problems, err)
		p.Refusal = file.RefusalOf(&file.Policies[i])
		opts.Policies = append(opts.Policies, p)
	}
	return opts, errors.Join(problems...)
}

// invalid returns an error about a field that is invalid for live requests.
func invalid(option, format string, args ...any) error {
	return &OptionError{Package: "config", Option: option, Err: fmt.Errorf(format, args...)}
}

// modeOf returns the failure mode of that name; the zero value for the empty name.
func modeOf(name string) (mode policy.Mode, err error) {
	if name == "" {
		return 0, nil
	}
	for mode = policy.Open; mode <= policy.Closed; mode++ {
		if mode.String() == name {
			return mode, nil
		}
	}
	return 0, invalid("failure", "%q: must be open, closed, local or optimistic", name)
}

// source provides the fields of live requests.
type source struct {
	client *clientip.Source
	claims *claims.Reader
}

// http returns the policy for httplimit.
func (p *Policy) http(from *source) (made httplimit.Policy, err error) {
	if err := p.checkLive(); err != nil {
		return made, err
	}
	fields := p.Key.Fields()
	mode, err := modeOf(p.Failure)
	err = p.withPolicy(err)
	made = httplimit.Policy{
		Name: p.Name, Matches: p.Patterns(), Limits: p.Limits, Overrides: p.AllOverrides(), Allow: p.Allow, Deny: p.Deny, Shadow: p.Shadow,
		Candidate: p.Candidate, Penalty: p.Penalty, Failure: mode, Plans: p.RequestPlans(), Plan: p.httpPlan(from),
		// keyOf replaces a missing name.
		Key: httplimit.KeyFunc(func(r *http.Request) (string, error) { return from.keyOf(p.Key, fields, r), nil }).WithForm(p.Key.Form(from.client.Grouping())),
	}
	var wrong error
	made.Cost, wrong = p.httpCost()
	err = errors.Join(err, wrong)
	made.Skip, wrong = p.httpSkip()
	return made, errors.Join(err, wrong)
}

// checkLive returns an error for everything that live requests cannot be decided by.
func (p *Policy) checkLive() error {
	var problems []error
	for _, field := range p.Key.Fields() {
		if field.Kind == FieldStatus || field.Kind == FieldJSON {
			problems = append(problems, p.withPolicy(invalid("key", "{%v} is known in recorded traffic only; "+
				"use address, user, key, header:NAME, claim:NAME, method, path, query or host", field)))
		}
	}
	problems = append(problems, p.withPolicy(checkLiveCost("cost", p.Cost)))
	for i := range p.Match {
		problems = append(problems, p.withPolicy(checkLiveCost("match", p.CostAt(i))))
	}
	return errors.Join(problems...)
}

// withPolicy adds the name of this policy to an error about a field.
func (p *Policy) withPolicy(err error) error {
	var wrong *OptionError
	if errors.As(err, &wrong) {
		wrong.Within = policyLabel(p.Name)
	}
	return err
}

type (
	userKey struct{}
	keyKey  struct{}
)

// WithUser sets the user of a request, for templates with {user}. Only code that has verified the user may call it: by a client
// certificate, for example, or by a header that only a trusted proxy can have written.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// WithKey sets {key} for templates: a key that a trusted proxy or the application has chosen by its own means.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// keyOf makes the key of a request by a template. It determines the address only if it is part of the key.
func (s *source) keyOf(t Template, fields []Field, r *http.Request) string {
	var room [128]byte
	var values [8][]byte
	list := values[:0]
	for _, field := range fields {
		var value []byte
		if field.Kind != FieldAddress || len(t.others) == 0 {
			value = s.valueOf(field, r)
		}
		list = append(list, value)
	}
	if !t.replacesName() {
		return string(t.AppendKey(room[:0], list))
	}
	_, start, ok := t.choose(list)
	if !ok {
		return string(t.AppendKeyOr(room[:0], list, []byte(s.client.Key(r))))
	}
	for i := start; i < len(fields); i++ {
		if fields[i].Kind == FieldAddress {
			list[i] = s.valueOf(fields[i], r)
		}
	}
	return string(t.AppendKey(room[:0], list))
}

// valueOf returns the value of a field, or nil if it is missing.
func (s *source) valueOf(field Field, r *http.Request) []byte {
	switch field.Kind {
	case FieldAddress:
		return []byte(s.client.Key(r))
	case FieldUser:
		return fromContext(r.Context(), userKey{})
	case FieldKey:
		return fromContext(r.Context(), keyKey{})
	case FieldMethod:
		if r.Method == "" { // empty means GET; see http.Request
			return []byte(http.MethodGet)
		}
		return []byte(strings.ToUpper(r.Method)) // Django and Flask accept post as POST
	case FieldPath:
		return []byte(httplimit.CanonicalPath(r.URL))
	case FieldQuery:
		return []byte(r.URL.RawQuery)
	case FieldHost:
		return []byte(httplimit.CanonicalHost(r.Host))
	case FieldClaim:
		if text := s.claims.Value(r, field.Name); text != "" {
			return []byte(text)
		}
	case FieldHeader:
		if strings.EqualFold(field.Name, "Host") { // net/http removes it from the headers
			return []byte(httplimit.CanonicalHost(r.Host))
		}
		if values := r.Header[field.Name]; len(values) == 1 {
			return []byte(values[0])
		}
	}
	return nil
}

func fromContext(ctx context.Context, key any) []byte {
	if text, ok := ctx.Value(key).(string); ok {
		return []byte(text)
	}
	return nil
}
