package keyform

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/match"
	"github.com/slidegate/slidegate/policy"
)

// Address returns the form of keys that are addresses: an address in any notation means the group that it belongs to,
// and a prefix all groups within it.
func Address(groups clientip.Grouping) Form { return addressForm{groups} }

type addressForm struct{ groups clientip.Grouping }

var errNotAddress = errors.New("must be an address, such as 203.0.113.7, or a prefix, such as 203.0.113.0/24")

// Read reads an address, a prefix or a pattern of addresses.
func (f addressForm) Read(text string, pattern bool) (Meaning, error) {
	if pattern {
		if strings.Trim(text, "0123456789abcdef.:/*") != "" {
			return Meaning{}, errors.New("is a pattern that no address fits, and keys are addresses here; write a prefix, such as 203.0.113.0/24")
		}
		return singleKey(text, true), nil
	}
	if key, ok := f.groups.Key(text); ok || key == clientip.NoAddress {
		return singleKey(key, false), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return Meaning{}, errNotAddress
	}
	if prefix.Addr().Is4In6() && prefix.Bits() < mappedBits {
		return Meaning{}, errors.New("is a prefix of IPv4 addresses mapped into IPv6; write it as IPv4")
	}
	prefix = Unmap(prefix)
	group := f.groups.Of(prefix.Addr())
	switch {
	case prefix.Masked() != prefix:
		return Meaning{}, fmt.Errorf("has bits beyond its length; write the prefix %v, or the address alone", prefix.Masked())
	case group.Addr().Is4() != prefix.Addr().Is4():
		return Meaning{}, errors.New("contains IPv6 addresses that embed IPv4 addresses, by which their clients are counted; write the IPv4 prefix")
	case prefix.Bits() > group.Bits() && !prefix.IsSingleIP():
		return Meaning{}, fmt.Errorf("is longer than the groups in which addresses are counted; write %v to mean the whole group", group)
	case prefix.Bits() >= group.Bits():
		key, _ := f.groups.Key(prefix.Addr().String())
		return singleKey(key, false), nil
	}
	return Meaning{Text: prefix.String(), Keys: []Match{{Prefix: prefix}}}, nil
}

// singleKey returns the meaning of a text that is one key or pattern.
func singleKey(text string, pattern bool) Meaning {
	return Meaning{Text: text, Keys: []Match{{Key: text, Pattern: pattern}}}
}

// Secret is the form of keys made by policy.HashSecret: a text means the key of that secret, or is such a key itself.
var Secret Form = secretForm{}

type secretForm struct{}

// hashMark is how a key made by policy.HashSecret begins.
const hashMark = "sha256:"

// isHashed reports whether text is a key made by policy.HashSecret.
func isHashed(text string) bool {
	digits, marked := strings.CutPrefix(text, hashMark)
	return marked && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Read reads a secret, or its hash.
func (secretForm) Read(text string, pattern bool) (Meaning, error) {
	switch {
	case pattern && text != "*":
		return Meaning{}, errSecretStar
	case pattern || isHashed(text):
		return singleKey(text, pattern), nil
	}
	return singleKey(policy.HashSecret(text), false), nil
}

var (
	errSecretStar = errors.New("contains a *, but keys are hashes of secrets here, which fit no pattern; write the whole secret, * for all keys, or for a secret " +
		"that contains a * its key, which policy.HashSecret returns")
	errNotHashed = errors.New("is not a key as requests have it, which is the hash of a secret here; write the secret without =, or its key, which policy.HashSecret returns")
)

// hashes reports whether keys of a form may be hashes.
func hashes(form Form) bool {
	first, _ := form.(firstOfForm)
	return form == Secret || slices.ContainsFunc(first, func(p Part) bool { return hashes(p.Form) })
}

// checkExact accepts a hash only.
func (secretForm) checkExact(key string) error {
	if !isHashed(key) {
		return errNotHashed
	}
	return nil
}

var errEmpty = errors.New("is empty, and no client has the empty key; write a key")

// Text is the form of keys that are a text by which clients name themselves.
var Text Form = textForm{}

type textForm struct{}

// Read reads a name or a pattern of names.
func (textForm) Read(text string, pattern bool) (Meaning, error) {
	return singleKey(text, pattern), nil
}

// Path is the form of keys that are the path of a URL, as match.CanonicalPath has it. A text with encoded bytes may be a path from a URL
// or a key, which is decoded, so it is an error.
var Path Form = pathForm{}

type pathForm struct{}

var percentEncoded = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// Read reads a path or a pattern of paths.
func (pathForm) Read(text string, pattern bool) (Meaning, error) {
	anyStart := pattern && strings.HasPrefix(text, "*")
	switch {
	case !strings.HasPrefix(text, "/") && !anyStart:
		return Meaning{}, errors.New("must have a path that begins with /, such as /login")
	case strings.ContainsAny(text, "?#"):
		return Meaning{}, errors.New("must have a path without ? or #, and what follows it")
	case pattern && strings.HasSuffix(text, "/"):
		return Meaning{}, errors.New("must have a path without a slash at its end, as keys have it; remove it, or write /* for everything below")
	case percentEncoded.MatchString(text):
		return Meaning{}, errors.New("has a path with encoded bytes, such as %20, and keys have it decoded; write it decoded")
	case anyStart:
		return singleKey(match.CanonicalPath(&url.URL{Path: "/" + text})[1:], true), nil
	}
	return singleKey(match.CanonicalPath(&url.URL{Path: text}), pattern), nil
}

// Global is the form of a single key for all requests: the empty one.
var Global Form = globalForm{}

type globalForm struct{}

// Read reads the empty key, or a pattern that it fits.
func (globalForm) Read(text string, pattern bool) (Meaning, error) {
	if text != "" && !(pattern && strings.Trim(text, "*") == "") {
		return Meaning{}, errors.New(`matches nothing, since all requests share one key, which is empty; write ""`)
	}
	return singleKey(text, pattern), nil
}

// Part is one of the keys of FirstOf or AllOf.
type Part struct {
	Name string // how people name it, as in header:X-User; X-User then means the same
	Mark string // for FirstOf: what precedes the keys of this alternative
	Form Form   // nil if any text is a key
	// Escape returns the key that a value of this alternative has, where it could be mistaken for the key of another; nil
	// changes nothing.
	Escape func(value string) string
}

// cut returns the rest of a text that begins with the name of the part and an equals sign, or with its mark, which is the name and a
// colon for most keys.
func (p *Part) cut(text string) (rest string, found bool) {
	if p.Mark != "" && strings.HasPrefix(text, p.Mark) {
		return text[len(p.Mark):], true
	}
	_, short, long := strings.Cut(p.Name, ":")
	if rest, found := strings.CutPrefix(text, p.Name+":"); found && long {
		return rest, true
	}
	for _, name := range []string{p.Name, short} {
		if n := len(name); n > 0 && len(text) > n && text[n] == '=' && strings.EqualFold(text[:n], name) {
			return text[n+1:], true
		}
	}
	return "", false
}

// read reads the key of a part.
func (p *Part) read(text string, pattern bool) (Meaning, error) {
	if p.Form == nil {
		return Text.Read(text, pattern)
	}
	return p.Form.Read(text, pattern)
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

// FirstOf returns the form of keys that are the first of several that a request has. A text that begins with the name
// of an alternative and an equals sign, or with its mark, means that alternative; any other text means every alternative
// whose key it can be.
func FirstOf(alternatives ...Part) Form { return firstOfForm(alternatives) }

type firstOfForm []Part

// Read reads a key of one alternative, or of all that it fits.
func (f firstOfForm) Read(text string, pattern bool) (Meaning, error) {
	for i := range f {
		rest, named := f[i].cut(text)
		if !named {
			continue
		}
		if strings.TrimSpace(rest) != rest {
			return Meaning{}, errSpace
		}
		one, err := f.alternative(i, rest, pattern)
		if err == nil && f[i].Mark == "" { // without the name, it could mean other alternatives too
			one.Text = f[i].Name + "=" + one.Text
		}
		return one, err
	}
	found, secrets, err := f.fitting(text, pattern)
	switch {
	case err != nil:
		return Meaning{}, err
	case len(found) == 1:
		return found[0], nil
	case secrets != "":
		return Meaning{}, fmt.Errorf("may be any of %s, and %s is a secret; write which, as in %s=VALUE", f.labels(), secrets, secrets)
	}
	all := Meaning{Text: text}
	for _, one := range found {
		all.Keys = append(all.Keys, one.Keys...)
	}
	return all, nil
}

// fitting reads a text as the key of each alternative, and returns those that it can be and the name of one that is a
// secret, if any. An address is not a secret.
func (f firstOfForm) fitting(text string, pattern bool) (found []Meaning, secret string, err error) {
	var addresses, secrets []int
	var reasons []string
	read := make([]Meaning, len(f))
	fits := make([]bool, len(f))
	for i := range f {
		one, err := f.alternative(i, text, pattern)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("as %s it %v", f[i].label(), err))
			continue
		}
		read[i], fits[i] = one, true
		switch f[i].Form.(type) {
		case addressForm:
			addresses = append(addresses, i)
		case secretForm:
			secrets = append(secrets, i)
		}
	}
	for _, i := range secrets {
		fits[i] = pattern || len(addresses) == 0
	}
	for i := range f {
		if !fits[i] {
			continue
		}
		found = append(found, read[i])
		if slices.Contains(secrets, i) && !pattern {
			secret = f[i].label()
		}
	}
	if len(found) == 0 {
		return nil, "", errors.New("is no key of this policy: " + strings.Join(reasons, "; "))
	}
	return found, secret, nil
}

// alternative reads a key of one alternative.
func (f firstOfForm) alternative(i int, text string, pattern bool) (Meaning, error) {
	if text == "" {
		return Meaning{}, errEmpty
	}
	p := &f[i]
	one, err := p.read(text, pattern)
	if err != nil {
		return one, err
	}
	keys := make([]Match, len(one.Keys))
	for k, match := range one.Keys {
		if p.Escape != nil && !match.Prefix.IsValid() {
			match.Key = p.Escape(match.Key)
		}
		match.Key = p.Mark + match.Key
		keys[k] = match
	}
	return Meaning{Text: p.Mark + one.Text, Keys: keys}, nil
}

// checkExact accepts keys that one of the alternatives can have.
func (f firstOfForm) checkExact(key string) error {
	err := fmt.Errorf("is not a key as requests have it, which begins with the name of an alternative; write which of %s it is, as in %s=VALUE", f.labels(), f[0].label())
	for i := range f {
		if rest, marked := strings.CutPrefix(key, f[i].Mark); marked {
			if err = checkExact(f[i].Form, rest); err == nil {
				return nil
			}
		}
	}
	return err
}

// label names a part in errors.
func (p *Part) label() string {
	if p.Name == "" {
		return strings.TrimSuffix(p.Mark, ":")
	}
	return p.Name
}

func (f firstOfForm) labels() string {
	names := make([]string, len(f))
	for i := range f {
		names[i] = f[i].label()
	}
	return strings.Join(names, ", ")
}

// AllOf returns the form of keys that consist of several, each written with its length before it. A person writes all
// of them with their names: header:X-User=ann,header:X-Team=red.
func AllOf(parts ...Part) Form { return allOfForm(parts) }

type allOfForm []Part

// Read reads a key as requests have it, or all parts by their names.
func (f allOfForm) Read(text string, pattern bool) (Meaning, error) {
	if pattern && strings.Trim(text, "*") == "" {
		return singleKey(text, true), nil
	}
	if pattern {
		return Meaning{}, fmt.Errorf("is a pattern, which cannot be compared with a key of several parts; write all parts, as %s", f.sample())
	}
	values, stored := f.cutStored(text)
	if !stored {
		values = f.cutNamed(text)
	}
	if values == nil {
		return Meaning{}, fmt.Errorf("must have all parts of a key; write %s", f.sample())
	}
	var b strings.Builder
	for i, value := range values {
		key := value // an empty part is a part like any other
		if value != "" {
			one, err := f[i].read(value, false)
			if err != nil {
				return Meaning{}, fmt.Errorf("%s: %w", f.name(i), err)
			}
			if len(one.Keys) != 1 || one.Keys[0].Prefix.IsValid() {
				return Meaning{}, fmt.Errorf("%s: must mean a single key in a key of several parts, not a prefix or several alternatives; write which one", f.name(i))
			}
			key = one.Keys[0].Key
		}
		if stored && key != value {
			return Meaning{}, fmt.Errorf("%s: is not as requests have it; write %s", f.name(i), f.sample())
		}
		b.WriteString(AllOfPart(key))
	}
	return singleKey(b.String(), false), nil
}

// checkExact accepts keys that have all parts.
func (f allOfForm) checkExact(key string) error {
	values, stored := f.cutStored(key)
	if !stored {
		return fmt.Errorf("is not a key as requests have it; write all parts without =, as %s", f.sample())
	}
	for i, value := range values {
		if err := checkExact(f[i].Form, value); err != nil && value != "" {
			return fmt.Errorf("%s: %w", f.name(i), err)
		}
	}
	return nil
}

// AllOfPart returns one part of a key of AllOf: its length, a colon and the part, so that different parts never make the
// same key.
func AllOfPart(part string) string { return strconv.Itoa(len(part)) + ":" + part }

// cutStored returns the parts of a key as requests have it.
func (f allOfForm) cutStored(text string) (values []string, ok bool) {
	for range f {
		digits, rest, found := strings.Cut(text, ":")
		n, err := strconv.Atoi(digits)
		if !found || err != nil || n < 0 || n > len(rest) {
			return nil, false
		}
		values, text = append(values, rest[:n]), rest[n:]
	}
	return values, text == ""
}

// cutNamed returns the values of all parts, written in their order; nil if one is missing.
func (f allOfForm) cutNamed(text string) (values []string) {
	for i := range f {
		rest, found := f.cutPart(i, text)
		if !found {
			return nil
		}
		value := rest
		text = ""
		for at := range rest { // the value ends where the next part begins
			if i+1 < len(f) && rest[at] == ',' {
				if _, next := f.cutPart(i+1, rest[at+1:]); next {
					value, text = rest[:at], rest[at+1:]
					break
				}
			}
		}
		values = append(values, value)
	}
	return values
}

// cutPart cuts the name of a part off a text. The name of an alternative stays, since the alternative's form reads it.
func (f allOfForm) cutPart(i int, text string) (rest string, found bool) {
	part := f[i]
	part.Name, part.Mark = f.name(i), ""
	if rest, found = part.cut(text); found {
		return rest, true
	}
	if first, ok := f[i].Form.(firstOfForm); ok {
		for k := range first {
			if _, named := first[k].cut(text); named {
				return text, true
			}
		}
	}
	return "", false
}

// name returns the name of a part; those of an application's own functions are numbered.
func (f allOfForm) name(i int) string {
	if f[i].Name != "" {
		return f[i].Name
	}
	return numbered(i)
}

// numbered returns the name of a part that has none.
func numbered(i int) string { return "key" + strconv.Itoa(i+1) }

// sample shows how a key is written.
func (f allOfForm) sample() string {
	parts := make([]string, len(f))
	for i := range f {
		parts[i] = f.name(i) + "=VALUE"
		if first, ok := f[i].Form.(firstOfForm); ok {
			parts[i] = first[0].label() + "=VALUE"
		}
	}
	return strings.Join(parts, ",")
}
