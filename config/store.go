package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// schemes are the schemes of the URLs of stores.
var schemes = []string{
	"memory", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel", "postgres", "postgresql",
	"nats", "tls",
}

// store reads the URL of a store, in which ${NAME} is replaced by an environment variable and ${file:PATH} by the content of
// another file: passwords do not belong in this one. Errors contain nothing of the URL but its scheme.
func (r *reader) store(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if !ok {
		return ""
	}
	text, err := expand(text, values{os.LookupEnv, readSecret, r.opts.Offline})
	switch {
	case err != nil:
	case r.opts.Offline && strings.Contains(text, "${"):
		err = checkUnset(text)
	default:
		err = checkStore(text)
	}
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
	}
	return text
}

// checkUnset is checkStore for a URL that is only partly known. It assumes that each variable that is not set is 1.
func checkUnset(text string) error {
	scheme, _, _ := strings.Cut(text, ":")
	if strings.Contains(scheme, "${") {
		return nil // even the kind of store is unknown
	}
	known, err := expand(text, values{
		lookup: func(string) (string, bool) { return "1", true },
		read:   func(string) (string, error) { return "1", nil },
	})
	if err != nil {
		return err
	}
	return checkStore(known)
}

// checkStore checks what the URLs of all stores have in common; the rest is checked when the store is opened. It does not use
// the standard library's parser, because a cluster has several hosts.
func checkStore(text string) error {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return errors.New("the URL contains a space, a control character or a non-ASCII letter; " +
				"write it percent-encoded, a space as %20")
		}
	}
	scheme, rest, _ := strings.Cut(text, ":")
	inner, slashes := strings.CutPrefix(rest, "//")
	if !slices.Contains(schemes, scheme) {
		_, near := errtext.Nearest(scheme, schemes)
		if slashes || near && rest == "" { // otherwise it may be a secret, and is not shown
			return errtext.Unknown(scheme, "a kind of store", schemes)
		}
		return errors.New("must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that contains one")
	}
	host, parameters, _ := strings.Cut(inner, "?")
	switch {
	case scheme == "memory" && !slashes:
		if before, _, _ := strings.Cut(rest, "?"); before != "" || text == scheme {
			return errors.New("write memory: and nothing else, or parameters after a ?")
		}
	case scheme == "memory" && host != "":
		return errors.New("a store in memory has no host; write memory: instead")
	case scheme == "nats" && !slashes:
		if before, _, _ := strings.Cut(rest, "?"); before != "embedded" {
			return errors.New("write nats:// and then the host, or nats:embedded?dir=FOLDER for a server in this process")
		}
		_, parameters, _ = strings.Cut(rest, "?")
	case !slashes:
		return fmt.Errorf("write %s:// and then the host", scheme)
	case scheme != "memory":
		return checkHosts(scheme, inner)
	}
	return checkEscapes(parameters)
}

// checkHosts checks what follows the scheme: the user, the hosts, and then a path and parameters.
func checkHosts(scheme, rest string) error {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	hosts := rest[:end]
	if _, after, found := strings.Cut(hosts, "@"); found {
		hosts = after
	}
	if strings.Count(rest, "@") > 1 || strings.Contains(rest[end:], "@") || strings.Contains(rest, "#") {
		return errors.New("/, ?, # and @ in a password must be percent-encoded: %2F, %3F, %23, %40")
	}
	if hosts == "" && !strings.HasPrefix(scheme, "postgres") { // which defaults to a socket
		return fmt.Errorf("the URL has no host; write %s://localhost, say", scheme)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if !isHost(host) && hosts != "" {
			return errors.New("the host must be a name or an address, and the port a number, 1 to 65535; " +
				"a / in a password must be written as %2F")
		}
	}
	return checkEscapes(rest)
}

// isHost reports whether text is a name or an address, optionally followed by a port.
func isHost(text string) bool {
	name, port, hasPort := text, "", false
	if inside, after, bracket := strings.Cut(text, "]"); bracket {
		name, port, hasPort = strings.TrimPrefix(inside, "["), strings.TrimPrefix(after, ":"), after != ""
		if addr, err := netip.ParseAddr(name); err != nil || !addr.Is6() || len(inside) != len(name)+1 ||
			hasPort && len(port) == len(after) {
			return false
		}
	} else {
		name, port, hasPort = strings.Cut(text, ":")
		if name == "" || strings.ContainsFunc(name, notInName) {
			return false
		}
	}
	if !hasPort {
		return true
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return err == nil && number > 0
}

// checkEscapes checks that every % begins an encoded byte.
func checkEscapes(text string) error {
	if _, err := url.PathUnescape(text); err != nil {
		return errors.New("% must be followed by two hexadecimal digits; write %25 for a literal %")
	}
	return nil
}
