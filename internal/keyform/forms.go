package keyform

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/policy"
)

// Address returns the form of keys that are addresses, or the groups that these belong to. A prefix matches all groups within it.
func Address(groups clientip.Grouping) Form { return addressForm{groups} }

type addressForm struct{ groups clientip.Grouping }

// Example returns a group.
func (f addressForm) Example() string {
	key, _ := f.groups.Key("203.0.113.7")
	return key
}

// Read reads a group, a prefix or a pattern of addresses.
func (f addressForm) Read(text string, pattern bool) (Match, error) {
	if pattern {
		if strings.Trim(text, "0123456789abcdef.:/*") != "" {
			return Match{}, errors.New("is a pattern that no address fits, and keys are addresses here")
		}
		return Match{Key: text, Pattern: true}, nil
	}
	if text == clientip.NoAddress {
		return Match{Key: text}, nil
	}
	if key, ok := f.groups.Key(text); ok {
		return f.group(text, key)
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return Match{}, errors.New("must be an address, or a prefix such as 203.0.113.0/24")
	}
	if prefix.Addr().Is4In6() {
		return Match{}, errors.New("is a prefix of IPv4 addresses mapped into IPv6; write it as IPv4")
	}
	group := f.groups.Of(prefix.Addr())
	switch {
	case prefix.Masked() != prefix:
		return Match{}, fmt.Errorf("has bits beyond its length; write the prefix %v, or the address alone", prefix.Masked())
	case group.Addr().Is4() != prefix.Addr().Is4():
		return Match{}, errors.New("contains IPv6 addresses that embed IPv4 addresses, by which their clients are counted; write the IPv4 prefix")
	case prefix.Bits() >= group.Bits():
		key, _ := f.groups.Key(prefix.Addr().String())
		return f.group(text, key)
	case prefix.String() != text:
		return Match{}, fmt.Errorf("is not the shortest form of the prefix; write %v", prefix)
	}
	return Match{Prefix: prefix}, nil
}

// group returns the match of a group, if the text is its key.
func (addressForm) group(text, key string) (Match, error) {
	if text != key {
		return Match{}, fmt.Errorf("is not as addresses are counted; write %s", key)
	}
	return Match{Key: key}, nil
}

// Secret is the form of keys made by policy.HashSecret.
var Secret Form = secretForm{}

type secretForm struct{}

// hashMark is how a key made by policy.HashSecret begins.
const hashMark = "sha256:"

func (secretForm) Example() string { return policy.HashSecret("a secret") }

// Read reads the hash of a secret.
func (secretForm) Read(text string, pattern bool) (Match, error) {
	digits, marked := strings.CutPrefix(text, hashMark)
	if !marked || pattern || len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return Match{}, errors.New("must be the hash of a secret, which policy.HashSecret returns")
	}
	return Match{Key: text}, nil
}

// Text is the form of keys that are a text by which clients name themselves.
var Text Form = textForm{}

type textForm struct{}

func (textForm) Example() string { return "alice" }

// Read reads a name or a pattern of names.
func (textForm) Read(text string, pattern bool) (Match, error) {
	return Match{Key: text, Pattern: pattern}, nil
}

// Path is the form of keys that are the path of a URL, as match.CanonicalPath has it.
var Path Form = pathForm{}

type pathForm struct{}

func (pathForm) Example() string { return "/login" }

// Read reads a path or a pattern of paths.
func (pathForm) Read(text string, pattern bool) (Match, error) {
	if !strings.HasPrefix(text, "/") || !pattern && match.CanonicalPath(&url.URL{Path: text}) != text {
		return Match{}, errors.New("must be a path, decoded and in the case that keys have it, without a slash at its end, a query or a fragment")
	}
	return Match{Key: text, Pattern: pattern}, nil
}

// Global is the form of a single key for all requests: the empty one.
var Global Form = globalForm{}

type globalForm struct{}

func (globalForm) Example() string { return "" }

// Read reads the empty key.
func (globalForm) Read(text string, _ bool) (Match, error) {
	if text != "" {
		return Match{}, errors.New("matches nothing, since all requests share one key, which is empty")
	}
	return Match{}, nil
}

// Part is one of the keys of FirstOf or AllOf.
type Part struct {
	Name string // as in header:X-User
	Mark string // for FirstOf: what precedes the keys of this alternative
	Form Form   // nil if any text is a key
}

// form returns the form of the part.
func (p *Part) form() Form {
	if p.Form == nil {
		return Text
	}
	return p.Form
}

// NameAlternatives gives each part a name, and the mark of its alternative: the name and a colon, as keys of a file have it. A key of
// an application's own function has no name and is numbered, as in AllOf. No mark is the beginning of another.
func NameAlternatives(parts []Part) {
	escape := strings.NewReplacer("%", "%25", ":", "%3A")
	seen := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		if p.Name == "" || seen[p.Name] {
			p.Name = numbered(i)
		}
		seen[p.Name] = true
		kind, name, named := strings.Cut(p.Name, ":")
		if p.Mark = kind + ":"; named {
			p.Mark += escape.Replace(name) + ":"
		}
	}
}

// numbered returns the name of a part that has none.
func numbered(i int) string { return "key" + strconv.Itoa(i+1) }

// FirstOf returns the form of keys that are the first of several that a request has, after the mark of the alternative. One of them may
// have no mark.
func FirstOf(alternatives ...Part) Form { return firstOfForm(alternatives) }

type firstOfForm []Part

func (f firstOfForm) Example() string { return f[0].Mark + f[0].form().Example() }

// Read reads a key of the alternative whose mark it has.
func (f firstOfForm) Read(text string, pattern bool) (Match, error) {
	var own *Part
	for i := range f {
		p := &f[i]
		if p.Mark != "" && strings.HasPrefix(text, p.Mark) {
			own = p
			break
		}
		if p.Mark == "" {
			own = p
		}
	}
	before, _, _ := strings.Cut(text, "*")
	switch {
	case own == nil && pattern && f.begins(before): // it may be a pattern of several
		return Match{Key: text, Pattern: true}, nil
	case own == nil:
		return Match{}, fmt.Errorf("must begin with one of %s", strings.Join(f.marks(), ", "))
	case text == own.Mark:
		return Match{}, errors.New("is empty, and no client has the empty key")
	}
	read, err := own.form().Read(text[len(own.Mark):], pattern)
	read.Key = own.Mark + read.Key
	return read, err
}

// begins reports whether a mark begins with a text.
func (f firstOfForm) begins(text string) bool {
	for i := range f {
		if strings.HasPrefix(f[i].Mark, text) {
			return true
		}
	}
	return false
}

func (f firstOfForm) marks() []string {
	marks := make([]string, len(f))
	for i := range f {
		marks[i] = f[i].Mark
	}
	return marks
}

// AllOf returns the form of keys that consist of several, each written with its length before it.
func AllOf(parts ...Part) Form { return allOfForm(parts) }

type allOfForm []Part

func (f allOfForm) Example() (all string) {
	for i := range f {
		all += allOfPart(f[i].form().Example())
	}
	return all
}

// Read reads all parts of a key. A part may be empty.
func (f allOfForm) Read(text string, pattern bool) (Match, error) {
	rest := text
	for i := range f {
		digits, after, found := strings.Cut(rest, ":")
		n, err := strconv.Atoi(digits)
		if pattern || !found || err != nil || n < 0 || n > len(after) {
			return Match{}, errors.New("must have all parts of a key, each after its length")
		}
		if n > 0 {
			read, err := f[i].form().Read(after[:n], false)
			if err == nil && read.Prefix.IsValid() {
				err = errors.New("must not be a prefix in a key of several parts")
			}
			if err != nil {
				return Match{}, fmt.Errorf("%s: %w", f.name(i), err)
			}
		}
		rest = after[n:]
	}
	if rest != "" {
		return Match{}, fmt.Errorf("has more than its %d parts", len(f))
	}
	return Match{Key: text}, nil
}

// allOfPart returns one part of a key of AllOf: its length, a colon and the part, so that different parts never make the
// same key.
func allOfPart(part string) string { return strconv.Itoa(len(part)) + ":" + part }

// name returns the name of a part; those of an application's own functions are numbered.
func (f allOfForm) name(i int) string {
	if f[i].Name != "" {
		return f[i].Name
	}
	return numbered(i)
}
