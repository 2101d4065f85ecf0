package keyform

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Form describes the keys of a policy as requests have them, which is also how the page and the logs show them, so that lists, overrides
// and rulings are about keys that there can be. Package config and the middlewares have one for each of their keys; nil means keys that
// an application makes by its own function. A Form is immutable and safe for concurrent use.
type Form interface {
	// Read reads a key. Instead of an address in it, it may have a prefix of addresses. If pattern is set, it is a pattern of keys, with
	// a * that stands for any sequence of bytes. The error says what is wrong, and does not contain the text.
	Read(text string, pattern bool) (Match, error)
	// Example returns such a key.
	Example() string
}

// Match matches one key as requests have it, the keys of all addresses of a prefix, or those that fit a pattern.
type Match struct {
	Key     string       // the key or pattern; with a Prefix, what precedes the address in a key
	Pattern bool         // Key is a pattern
	Prefix  netip.Prefix // if valid, matches keys that are Key followed by an address or a group within it
}

// String returns the text that Read reads as this match.
func (m Match) String() string {
	text := m.Key
	if m.Prefix.IsValid() {
		text += m.Prefix.String()
	}
	if !utf8.ValidString(text) {
		return strconv.Quote(text)
	}
	return text
}

// Matches reports whether m matches this key.
func (m Match) Matches(key string) bool {
	switch {
	case m.Prefix.IsValid():
		rest, marked := strings.CutPrefix(key, m.Key)
		group, ok := groupIn(rest)
		return marked && ok && within(group, m.Prefix)
	case m.Pattern:
		return Fits(m.Key, key)
	}
	return key == m.Key
}

// groupIn reads an address, or a group of addresses, as keys contain it.
func groupIn(text string) (netip.Prefix, bool) {
	if text == "" || text[len(text)-1] > 'f' { // it cannot be one; an error of netip would allocate
		return netip.Prefix{}, false
	}
	if strings.IndexByte(text, '/') >= 0 {
		group, err := netip.ParsePrefix(text)
		return group, err == nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

// within reports whether all addresses of a group are in a prefix.
func within(group, prefix netip.Prefix) bool {
	return prefix.Bits() <= group.Bits() && prefix.Contains(group.Addr())
}

// Read reads a key of a form, or a pattern if pattern is set and it has a *. Rulings are stored as JSON, in which only UTF-8 can be
// written: a key with other bytes is in quotes, as by strconv.Quote. What follows a * at the beginning may be anything.
func Read(form Form, text string, pattern bool) (Match, error) {
	text = unquoteBytes(text)
	pattern = pattern && strings.Contains(text, "*")
	if form == nil || pattern && strings.HasPrefix(text, "*") {
		return Match{Key: text, Pattern: pattern}, nil
	}
	read, err := form.Read(text, pattern)
	if err != nil {
		err = fmt.Errorf("%w (keys are written as requests have them, such as %q)", err, form.Example())
	}
	return read, err
}

// unquoteBytes returns the text in quotes if it is not UTF-8. Other texts in quotes mean themselves.
func unquoteBytes(text string) string {
	if !strings.HasPrefix(text, `"`) {
		return text
	}
	if unquoted, err := strconv.Unquote(text); err == nil && !utf8.ValidString(unquoted) {
		return unquoted
	}
	return text
}

// mappedBits is the number of bits before the IPv4 address in a 4-in-6 address.
const mappedBits = 96

// Unmap returns the IPv4 prefix of a 4-in-6 prefix: clients are looked up by their IPv4 address.
func Unmap(prefix netip.Prefix) netip.Prefix {
	if prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix
}
