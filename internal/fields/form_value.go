package fields

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
)

// valueAsSent returns what a person writes for a field in the form that requests have it, or an error that says what to write.
// In a pattern, each * stands for any sequence of bytes.
func (f Field) valueAsSent(text string, pattern bool, groups clientip.Grouping) (string, error) {
	switch {
	case f.Kind == Address:
		read, err := keyform.Address(groups).Read(text, pattern)
		if err != nil || read.Keys[0].Prefix.IsValid() {
			return "", fmt.Errorf("must have the address of one client, such as 203.0.113.7, in place of {%v}", f)
		}
		return read.Keys[0].Key, nil
	case f.isHost():
		return hostAsSent(text)
	case f.Kind == Header && strings.TrimSpace(text) != text:
		return "", fmt.Errorf("must have no space before or after the value in place of {%v}, which headers cannot have", f)
	case f.Kind == Method:
		return methodAsSent(text)
	case f.Kind == Path:
		read, err := keyform.Path.Read(text, pattern)
		if err != nil {
			return "", err
		}
		return read.Keys[0].Key, nil
	case f.Kind == Query:
		return queryAsSent(text)
	}
	return text, nil
}

// isHost reports whether the field is the host of a request.
func (f Field) isHost() bool { return f.Kind == Host || f.Kind == Header && f.Name == "Host" }

// notHost finds what no host contains, or what follows it in a URL.
var notHost = regexp.MustCompile(`[^!-~]|[/@?#\\]|^[^\[]*:.*[^0-9]`)

// hostAsSent returns a host as match.CanonicalHost has it.
func hostAsSent(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
		text = "[" + text + "]"
	}
	if notHost.MatchString(text) {
		return "", errors.New("must have a host such as example.com in place of {host}, without https:// and path; write a name with other letters as xn--")
	}
	return match.CanonicalHost(text), nil
}

var aMethod = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// methodAsSent returns a method in capitals.
func methodAsSent(text string) (string, error) {
	if !aMethod.MatchString(text) {
		return "", errors.New("must have a method, such as GET, in place of {method}")
	}
	return strings.ToUpper(text), nil
}

// queryAsSent returns a query without the question mark.
func queryAsSent(text string) (string, error) {
	text = strings.TrimPrefix(text, "?")
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == '#' || c == 0x7f }) {
		return "", errors.New("must have a query as it is in a URL in place of {query}, with %20 for a space and without #")
	}
	return text, nil
}
