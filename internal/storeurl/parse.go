package storeurl

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
)

// Address is a parsed URL of a store.
type Address struct {
	Scheme         string // in lower case
	User, Password string
	Hosts          []string // with ports
	Path           []string
	Query          url.Values
}

// Parse parses a URL, which may have several hosts. Hosts without a port get the given one. Only the given parameters are valid.
func Parse(text, port string, parameters ...string) (a Address, err error) {
	invalidPart := func(what string) (Address, error) {
		return Address{}, Errorf("the URL's %s is invalid; write SCHEME://USER:PASSWORD@HOST:PORT/..., "+
			"and percent-encode / ? # @ and %% in a user or password", what)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return invalidPart("beginning")
	}
	a.Scheme = strings.ToLower(scheme)
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		if a.User, err = url.PathUnescape(user); err != nil {
			return invalidPart("user")
		}
		if a.Password, err = url.PathUnescape(password); err != nil {
			return invalidPart("password")
		}
		authority = authority[at+1:]
	}
	for host := range strings.SplitSeq(authority, ",") {
		if host, ok = withPort(host, port); !ok {
			return invalidPart("host")
		}
		a.Hosts = append(a.Hosts, host)
	}
	if path != "" {
		a.Path = strings.Split(path, "/")
	}
	a.Query, err = ParseQuery(query, parameters...)
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

// ParseQuery parses parameters, and rejects unknown ones: a misspelt parameter would silently have no effect.
func ParseQuery(text string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return nil, Errorf("invalid parameters after the ? of the URL; write NAME=VALUE&NAME=VALUE")
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return nil, UnknownParameter(name, text, known)
		}
		if len(values[name]) > 1 {
			return nil, Errorf("duplicate parameter %s in the URL; write it once", name)
		}
	}
	return values, nil
}

// UnknownParameter returns the error for a parameter that is not one of the known ones. It contains the name only if that cannot be
// part of a password: what follows a ? in a password looks like a parameter too.
func UnknownParameter(name, query string, known []string) error {
	if len(name) > 20 || strings.Contains(query, "@") || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_-") != "" {
		return Errorf("the URL has an unknown parameter (%s)", errtext.OneOf(known))
	}
	return Errorf("the URL has an unknown parameter %s%s (%s)", errtext.Quote(name), errtext.DidYouMean(name, known), errtext.OneOf(known))
}
