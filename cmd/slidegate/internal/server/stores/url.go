package stores

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/config"
	"github.com/slidegate/slidegate/config/errtext"
)

// The error texts here are our own. The errors of packages that parse URLs quote what they could not parse, and an invalid URL may
// contain a password in any part.

var schemes = []string{"memory", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel", "postgres", "nats", "tls", "memcached"}

// unknownScheme is the error for a URL of an unknown store. The error does not contain the scheme: if the URL is
// invalid, that may be a secret.
func unknownScheme(scheme string) error {
	return invalid("URL", "the URL begins with an unknown store%s (%s)",
		errtext.DidYouMean(scheme, schemes), errtext.OneOf(schemes))
}

// address is a parsed URL of a store.
type address struct {
	scheme         string
	user, password string
	hosts          []string // with ports
	path           []string
	query          url.Values
}

// parseAddress parses a URL, which may have several hosts. Only the given parameters are valid.
func parseAddress(text, port string, parameters ...string) (a address, err error) {
	invalidPart := func(what string) (address, error) {
		return address{}, invalid("URL", "the URL's %s is invalid; write SCHEME://USER:PASSWORD@HOST:PORT/..., "+
			"and percent-encode / ? # @ and %% in a user or password", what)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return invalidPart("beginning")
	}
	a.scheme = strings.ToLower(scheme)
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		if a.user, err = url.PathUnescape(user); err != nil {
			return invalidPart("user")
		}
		if a.password, err = url.PathUnescape(password); err != nil {
			return invalidPart("password")
		}
		authority = authority[at+1:]
	}
	for host := range strings.SplitSeq(authority, ",") {
		if host, ok = withPort(host, port); !ok {
			return invalidPart("host")
		}
		a.hosts = append(a.hosts, host)
	}
	if path != "" {
		a.path = strings.Split(path, "/")
	}
	a.query, err = parseQuery(query, parameters...)
	return a, err
}

// withPort returns a host with its port, or with the default port.
func withPort(host, port string) (string, bool) {
	if h, p, err := net.SplitHostPort(host); err == nil {
		host, port = h, p
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", false
		}
	}
	if host == "" {
		host = "localhost"
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 || strings.ContainsAny(host, "/?#@% ") {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

// parseQuery parses parameters, and rejects unknown ones: a misspelt parameter would silently have no effect.
func parseQuery(text string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, invalid("URL", "invalid parameters after the ? of the URL; write NAME=VALUE&NAME=VALUE")
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return nil, unknownParameter(shown(name, text), known)
		}
		if len(values[name]) > 1 {
			return nil, invalid("URL", "duplicate parameter %s in the URL; write it once", name)
		}
	}
	return values, nil
}

func unknownParameter(name string, known []string) error {
	if name == "" {
		return invalid("URL", "the URL has an unknown parameter (%s)", errtext.OneOf(known))
	}
	return invalid("URL", "the URL has an unknown parameter %s%s (%s)", errtext.Quote(name), errtext.DidYouMean(name, known), errtext.OneOf(known))
}

// shown returns the name of a parameter if errors may show it. What follows a ? in a password looks like a parameter too.
func shown(name, query string) string {
	if len(name) > 20 || strings.Contains(query, "@") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_-") != "" {
		return ""
	}
	return name
}

// invalid returns an error about an argument or an option of Open.
func invalid(option, format string, args ...any) error {
	return &config.OptionError{Package: "stores", Option: option, Err: fmt.Errorf(format, args...)}
}

// failed returns err as an error of the store.
func failed(store string, err error) error {
	return &config.OptionError{Package: "stores", Within: store, Err: err}
}
