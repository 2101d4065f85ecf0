package config

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config/internal/claims"
	"github.com/slidegate/slidegate/httplimit"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/internal/options"
)

// HTTP returns options for httplimit from the policies, trusted proxies, address groups, failure mode and timeout of
// a file, so that a program decides HTTP requests as the service does. A key or a cost that exists in recorded traffic only is
// an error. The caller provides the store: the file's URL is used by the service only.
//
// The trusted proxies write X-Forwarded-For; if the file names none, the address is that of the connection. The fields of a
// request are: address, the client's; method, in capitals; host, in lower case, without a trailing dot and without the port, as
// from match.CanonicalHost; path, as from match.CanonicalPath; and headers. A header that is sent more than once counts as
// missing, since servers disagree about which line applies; the service rejects such requests. As a cost, its highest line counts.
// A user is known only if the application has verified one and passes it by WithUser: a name in an Authorization header proves
// nothing until the password has been checked, and a client could otherwise choose a new key for every request, or use up the
// quota of another. Likewise, key is what WithKey passes. A claim is taken from a bearer token that Service.JWT verifies. A
// missing or empty user, key, claim or header is replaced by the address of the client; see fields.Template.AppendKeyOr.
func HTTP(file *File) (opts httplimit.Options, err error) {
	if err := checkGroups(file.Service.AddressGroups); err != nil {
		return opts, err
	}
	client := clientip.Options{Grouping: file.Service.AddressGroups}
	if proxies := file.Service.TrustedProxies; len(proxies) > 0 {
		client.Trusted, client.Header = proxies, "X-Forwarded-For"
	}
	if opts.Client, err = clientip.New(client); err != nil {
		return opts, &options.Error{Package: "config", Option: "trusted_proxies", Err: err}
	}
	opts.Timeout, opts.Failure = file.Service.StoreTimeout, file.Service.Failure
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
		p.Refusal = file.refusalOf(&file.Policies[i])
		opts.Policies = append(opts.Policies, p)
	}
	return opts, errors.Join(problems...)
}

// invalid returns an error about a field that is invalid for live requests.
func invalid(option, format string, args ...any) error {
	return &options.Error{Package: "config", Option: option, Err: fmt.Errorf(format, args...)}
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
	used := p.Key.Fields()
	made = httplimit.Policy{
		Name: p.Name, Matches: p.Patterns(), Limits: p.Limits, Overrides: p.AllOverrides(), Allow: p.Allow, Block: p.Block, Shadow: p.Shadow,
		Penalty: p.Penalty, Wait: p.Wait, Failure: p.Failure, Plans: p.RequestPlans(), Plan: p.httpPlan(from),
		// KeyOf replaces a missing name.
		Key: httplimit.Key{Form: p.Key.Form(from.client.Grouping()), Shared: true, Of: func(r *http.Request) (string, error) {
			return p.Key.KeyOf(used, func(field fields.Field) []byte { return from.valueOf(field, r) }), nil
		}},
	}
	made.Cost, made.Skip, err = p.httpRoutes()
	return made, err
}

// checkLive returns an error for everything that live requests cannot be decided by.
func (p *Policy) checkLive() error {
	var problems []error
	if len(p.Notify) > 0 {
		problems = append(problems, p.withPolicy(invalid("notify", "the middlewares do not watch thresholds, only slidegate serve and slidegate proxy do; leave it out")))
	}
	for _, field := range p.Key.Fields() {
		if field.Kind == fields.Status || field.Kind == fields.JSON {
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
	var wrong *options.Error
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

// valueOf returns the value of a field, or nil if it is missing.
func (s *source) valueOf(field fields.Field, r *http.Request) []byte {
	switch field.Kind {
	case fields.Address:
		return []byte(s.client.Key(r))
	case fields.User:
		return fromContext(r.Context(), userKey{})
	case fields.Key:
		return fromContext(r.Context(), keyKey{})
	case fields.Method:
		if r.Method == "" { // empty means GET; see http.Request
			return []byte(http.MethodGet)
		}
		return []byte(strings.ToUpper(r.Method)) // Django and Flask accept post as POST
	case fields.Path:
		return []byte(match.CanonicalPath(r.URL))
	case fields.Query:
		return []byte(r.URL.RawQuery)
	case fields.Host:
		return []byte(match.CanonicalHost(r.Host))
	case fields.Claim:
		if text := s.claims.Value(r, field.Name); text != "" {
			return []byte(text)
		}
	case fields.Header:
		if strings.EqualFold(field.Name, "Host") { // net/http removes it from the headers
			return []byte(match.CanonicalHost(r.Host))
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
