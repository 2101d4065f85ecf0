package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/slidegate/slidegate"
)

// Form describes how the keys of a policy are made, so that lists, overrides and rulings can name a client by what a
// person knows: the name, the address, the secret. Package config and the middlewares have one for each of their keys;
// nil means keys that an application makes by its own function, which are written as that function returns them. A Form
// is immutable and safe for concurrent use.
type Form interface {
	// Read returns the keys that a text means. If pattern is set, each * in it stands for any sequence of bytes. The error
	// says what to write instead, and does not contain the text.
	Read(text string, pattern bool) (KeyText, error)
}

// KeyText is what a text means as a key of a policy.
type KeyText struct {
	// Text names the same keys as the text that was read, with no secret in it. It is what rulings are stored under.
	Text string
	Keys []KeyMatch
}

// Matches reports whether the text means this key.
func (t KeyText) Matches(key string) bool {
	return slices.ContainsFunc(t.Keys, func(m KeyMatch) bool { return m.matches(key) })
}

// KeyMatch matches one key as requests have it, the keys of all addresses of a prefix, or those that fit a pattern.
type KeyMatch struct {
	Key     string       // the key or pattern; with a Prefix, what precedes the address in a key
	Pattern bool         // Key is a pattern
	Prefix  netip.Prefix // if valid, matches keys that are Key followed by an address or a group within it
}

// String returns the match as people write it.
func (m KeyMatch) String() string {
	if m.Prefix.IsValid() {
		return m.Key + m.Prefix.String()
	}
	return m.Key
}

func (m KeyMatch) matches(key string) bool {
	switch {
	case m.Prefix.IsValid():
		rest, marked := strings.CutPrefix(key, m.Key)
		group, ok := groupIn(rest)
		return marked && ok && within(group, m.Prefix)
	case m.Pattern:
		return matchKey(m.Key, key)
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

// exactMark precedes a key that is written as requests have it, whatever the form of the policy's keys is.
const exactMark = "="

var (
	errStar  = errors.New("contains a *, and patterns are for lists and for overrides with Pattern, or keys: in a file; write = before a key that contains one")
	errSpace = errors.New("begins or ends with a space; remove it, or write = before the key if it is part of it")
)

// ReadKey returns what a text means as a key of a form. A text that begins with = is the key that follows, as requests
// have it, whatever the form. A * without pattern, and a space at either end, are mistakes in other texts. Rulings are stored as
// JSON, in which only UTF-8 can be written: a text with other bytes is quoted as by strconv.Quote, also after an =, and is read
// as it would be without quotes.
func ReadKey(form Form, text string, pattern bool) (KeyText, error) {
	read, err := readKey(form, unquoteBytes(text), pattern)
	read.Text = quoteBytes(read.Text)
	return read, err
}

// quoteBytes quotes a text that is not UTF-8.
func quoteBytes(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	if key, exact := strings.CutPrefix(text, exactMark); exact {
		return exactMark + strconv.Quote(key)
	}
	return strconv.Quote(text)
}

// unquoteBytes returns the text that quoteBytes has quoted. Other texts in quotes mean themselves.
func unquoteBytes(text string) string {
	quoted, exact := strings.CutPrefix(text, exactMark)
	if !strings.HasPrefix(quoted, `"`) {
		return text
	}
	unquoted, err := strconv.Unquote(quoted)
	switch {
	case err != nil || utf8.ValidString(unquoted):
		return text
	case exact:
		return exactMark + unquoted
	}
	return unquoted
}

func readKey(form Form, text string, pattern bool) (KeyText, error) {
	if key, exact := strings.CutPrefix(text, exactMark); exact {
		match := []KeyMatch{{Key: key}}
		if plain, err := readKey(form, key, false); err == nil && slices.Equal(plain.Keys, match) {
			return plain, nil // it means the same without the mark
		}
		if err := checkExact(form, key); err != nil {
			return KeyText{}, err
		}
		return KeyText{Text: text, Keys: match}, nil
	}
	starred := strings.Contains(text, "*")
	switch {
	case starred && !pattern && hashes(form):
		return KeyText{}, errSecretStar
	case starred && !pattern:
		return KeyText{}, errStar
	case form == nil:
		return KeyText{Text: text, Keys: []KeyMatch{{Key: text, Pattern: starred}}}, nil
	case strings.TrimSpace(text) != text:
		return KeyText{}, errSpace
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

// ReadKey returns what a text means as a key of a policy: the same as in a ruling about it.
func (s *Set) ReadKey(policy int, text string) (KeyText, error) {
	return ReadKey(s.policies[policy].form, text, false)
}

// SingleKey returns the key that a text means, and an error if it means several.
func (s *Set) SingleKey(policy int, text string) (string, error) {
	read, err := s.ReadKey(policy, text)
	switch {
	case err != nil:
		return "", fmt.Errorf("policy %q: key: %w", s.policies[policy].name, err)
	case len(read.Keys) != 1 || read.Keys[0].Prefix.IsValid():
		return "", fmt.Errorf("policy %q: key: %w: it means the keys of several clients; write which, or = and the key as requests have it",
			s.policies[policy].name, slidegate.ErrUnsupported)
	}
	return read.Keys[0].Key, nil
}
