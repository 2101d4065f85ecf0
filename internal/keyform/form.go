package keyform

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Form describes how the keys of a policy are made, so that lists, overrides and rulings can name a client by what a
// person knows: the name, the address, the secret. Package config and the middlewares have one for each of their keys;
// nil means keys that an application makes by its own function, which are written as that function returns them. A Form
// is immutable and safe for concurrent use.
type Form interface {
	// Read returns the keys that a text means. If pattern is set, each * in it stands for any sequence of bytes. The error
	// says what to write instead, and does not contain the text.
	Read(text string, pattern bool) (Meaning, error)
}

// Meaning is what a text means as a key of a policy.
type Meaning struct {
	// Text names the same keys as the text that was read, with no secret in it. It is what rulings are stored under.
	Text string
	Keys []Match
}

// Matches reports whether the text means this key.
func (t Meaning) Matches(key string) bool {
	return slices.ContainsFunc(t.Keys, func(m Match) bool { return m.Matches(key) })
}

// Match matches one key as requests have it, the keys of all addresses of a prefix, or those that fit a pattern.
type Match struct {
	Key     string       // the key or pattern; with a Prefix, what precedes the address in a key
	Pattern bool         // Key is a pattern
	Prefix  netip.Prefix // if valid, matches keys that are Key followed by an address or a group within it
}

// String returns the match as people write it.
func (m Match) String() string {
	if m.Prefix.IsValid() {
		return m.Key + m.Prefix.String()
	}
	return m.Key
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

// ExactMark precedes a key that is written as requests have it, whatever the form of the policy's keys is.
const ExactMark = "="

var (
	errStar  = errors.New("contains a *, and patterns are for lists and for overrides with Pattern, or keys: in a file; write = before a key that contains one")
	errSpace = errors.New("begins or ends with a space; remove it, or write = before the key if it is part of it")
)

// Read returns what a text means as a key of a form. A text that begins with = is the key that follows, as requests
// have it, whatever the form. A * without pattern, and a space at either end, are mistakes in other texts. Rulings are stored as
// JSON, in which only UTF-8 can be written: a text with other bytes is quoted as by strconv.Quote, also after an =, and is read
// as it would be without quotes.
func Read(form Form, text string, pattern bool) (Meaning, error) {
	read, err := read(form, unquoteBytes(text), pattern)
	read.Text = quoteBytes(read.Text)
	return read, err
}

// quoteBytes quotes a text that is not UTF-8.
func quoteBytes(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	if key, exact := strings.CutPrefix(text, ExactMark); exact {
		return ExactMark + strconv.Quote(key)
	}
	return strconv.Quote(text)
}

// unquoteBytes returns the text that quoteBytes has quoted. Other texts in quotes mean themselves.
func unquoteBytes(text string) string {
	quoted, exact := strings.CutPrefix(text, ExactMark)
	if !strings.HasPrefix(quoted, `"`) {
		return text
	}
	unquoted, err := strconv.Unquote(quoted)
	switch {
	case err != nil || utf8.ValidString(unquoted):
		return text
	case exact:
		return ExactMark + unquoted
	}
	return unquoted
}

func read(form Form, text string, pattern bool) (Meaning, error) {
	if key, exact := strings.CutPrefix(text, ExactMark); exact {
		match := []Match{{Key: key}}
		if plain, err := read(form, key, false); err == nil && slices.Equal(plain.Keys, match) {
			return plain, nil // it means the same without the mark
		}
		if err := checkExact(form, key); err != nil {
			return Meaning{}, err
		}
		return Meaning{Text: text, Keys: match}, nil
	}
	starred := strings.Contains(text, "*")
	switch {
	case starred && !pattern && hashes(form):
		return Meaning{}, errSecretStar
	case starred && !pattern:
		return Meaning{}, errStar
	case form == nil:
		return Meaning{Text: text, Keys: []Match{{Key: text, Pattern: starred}}}, nil
	case strings.TrimSpace(text) != text:
		return Meaning{}, errSpace
	}
	read, err := form.Read(text, starred)
	if err != nil {
		err = fmt.Errorf("%w (to mean a key as it is, write = before it)", err)
	}
	return read, err
}

// checkExact returns an error for a key that no request can have, since the form hashes what clients send or marks it.
func checkExact(form Form, key string) error {
	if f, ok := form.(interface{ checkExact(key string) error }); ok {
		return f.checkExact(key)
	}
	return nil
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
