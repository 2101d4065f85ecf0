package gate

import (
	"context"
	"net/http"
	"path"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
)

type (
	userKey struct{}
	keyKey  struct{}
)

// WithUser says who the user of a request is, for CheckRequest and templates with {user}. Only a door that has verified
// the user may say so: by a client certificate, say, or by a header that only a trusted proxy can have written.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// WithKey says what {key} is in templates, for CheckRequest: a key that a trusted proxy has chosen by its own means.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

// aboutRequest makes keys of one request.
type aboutRequest struct {
	ctx     context.Context
	request *http.Request
	source  *clientip.Source
}

// key makes the key of the request under a policy.
func (a *aboutRequest) key(p *policy) string {
	var room [128]byte
	var values [8][]byte
	list := values[:0]
	for _, field := range p.fields {
		list = append(list, a.value(field))
	}
	return string(p.Key.AppendKey(room[:0], list))
}

// value returns the value of a field, or nil if it is missing.
func (a *aboutRequest) value(field config.Field) []byte {
	r := a.request
	switch field.Kind {
	case config.FieldAddress:
		return []byte(a.source.Key(r))
	case config.FieldUser:
		return said(a.ctx, userKey{})
	case config.FieldKey:
		return said(a.ctx, keyKey{})
	case config.FieldMethod:
		if r.Method == "" { // a request of a client, by the documentation of http.Request
			return []byte(http.MethodGet)
		}
		return []byte(r.Method)
	case config.FieldPath:
		return []byte(cleaned(r.URL.Path))
	case config.FieldQuery:
		return []byte(r.URL.RawQuery)
	case config.FieldHost:
		return []byte(strings.ToLower(r.Host))
	case config.FieldHeader:
		if strings.EqualFold(field.Name, "Host") { // net/http takes it out of the headers
			return []byte(strings.ToLower(r.Host))
		}
		if values := r.Header[field.Name]; len(values) > 0 {
			return []byte(values[0])
		}
	}
	return nil
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
