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

	"github.com/slidegate/slidegate/config/wording"
	"github.com/slidegate/slidegate/config/yamlfile"
)

// schemes are the kinds of stores that there are.
var schemes = []string{
	"memory", "redis", "rediss", "redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel", "postgres", "postgresql",
	"nats", "tls", "memcached",
}

// store reads the URL of a store, in which ${NAME} stands for a variable of the environment and ${file:PATH} for what is in
// another file: passwords do not belong in this one. No error has any of the URL in it but its scheme.
func (r *reader) store(e yamlfile.Field) string {
	text, ok := r.Text(e)
	if !ok {
		return ""
	}
	text, err := expand(text, values{os.LookupEnv, readSecret, r.offline})
	switch {
	case err != nil:
	case r.offline && strings.Contains(text, "${"):
		err = checkUnset(text)
	default:
		err = checkStore(text)
	}
	if err != nil {
		r.Problems.Addf(e.ValueAt(), "%s: %w", e.Name, err)
	}
	return text
}

// checkUnset is checkStore for a URL of which only a part is known: each variable that is not set could be a 1.
func checkUnset(text string) error {
	scheme, _, _ := strings.Cut(text, ":")
	if strings.Contains(scheme, "${") {
		return nil // even the kind of store is not known
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

// checkStore checks a URL as far as all stores have it in common; the rest is for who opens it. It does not take the
// standard library's parser, because a cluster has several hosts.
func checkStore(text string) error {
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return errors.New("the URL has a space, a control character or a letter outside of ASCII in it; " +
				"write it percent-encoded, a space as %20")
		}
	}
	scheme, rest, _ := strings.Cut(text, ":")
	inner, slashes := strings.CutPrefix(rest, "//")
	if !slices.Contains(schemes, scheme) {
		_, near := wording.Nearest(scheme, schemes)
		if slashes || near && rest == "" { // otherwise it may be anything, and is not shown
			return wording.Unknown(scheme, "a kind of store", schemes)
		}
		return errors.New("must be a URL, such as redis://localhost:6379 or memory:, or ${NAME} or ${file:/path} for a variable or a file that has one")
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

// checkHosts checks what follows the scheme: who, at which hosts, and then a path and parameters.
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
		return errors.New("a password with /, ?, # or @ in it must be written percent-encoded: %2F, %3F, %23, %40")
	}
	if hosts == "" && !strings.HasPrefix(scheme, "postgres") { // which has a socket where it is looked for
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

// isHost tells whether text is a name or an address, which a port may follow.
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
		return errors.New("a % that is not followed by two hexadecimal digits; write %25 for one that is meant")
	}
	return nil
}
