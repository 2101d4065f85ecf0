package fields

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
)

// Form returns the form of the keys of this template, for lists, overrides and rulings: the values of all fields with the texts between
// them, after the names of the fields if it is another alternative than the first of a template made by FirstOf. Where the address
// replaces a name, or is the key, a prefix of addresses may stand for it.
//
// The default key, of a policy without one, is the address for requests over HTTP; applications that send keys themselves may
// send any.
func (t Template) Form(groups clientip.Grouping) keyform.Form {
	if t.implied {
		return impliedForm{keyform.Address(groups)}
	}
	var parts []keyform.Part
	needsAddress := t.replacesName() && (len(t.others) > 0 || t.isBare()) // others replace a name within the key
	for i, one := range t.Alternatives() {
		part := keyform.Part{Form: templateForm{one, groups, t.replacesName() && len(t.others) == 0}}
		if i > 0 {
			part.Mark = t.others[i-1].mark
		}
		if one.isAddress() {
			part.Form = keyform.Address(groups)
		}
		needsAddress = needsAddress && part.Mark != addressMark
		parts = append(parts, part)
	}
	if needsAddress {
		parts = append(parts, keyform.Part{Mark: addressMark, Form: keyform.Address(groups)})
	}
	if len(parts) == 1 {
		return parts[0].Form
	}
	return keyform.FirstOf(parts...)
}

// isBare reports whether the key is the value of one field.
func (t Template) isBare() bool {
	return len(t.fields) == 1 && t.literals[0] == "" && t.literals[1] == ""
}

// isAddress reports whether the key is the address.
func (t Template) isAddress() bool { return t.isBare() && t.fields[0].Kind == Address }

// impliedForm is the form of the default key.
type impliedForm struct{ address keyform.Form }

func (f impliedForm) Example() string { return f.address.Example() }

// Read reads an address, a prefix, or a key that an application sends.
func (f impliedForm) Read(text string, pattern bool) (keyform.Match, error) {
	read, err := f.address.Read(text, pattern)
	if err != nil && !isAddress(text) {
		return keyform.Match{Key: text, Pattern: pattern}, nil
	}
	return read, err
}

// isAddress reports whether a text is an address or a prefix, in any notation.
func isAddress(text string) bool {
	_, notPrefix := netip.ParsePrefix(text)
	_, is := clientip.Grouping{}.Key(text)
	return is || notPrefix == nil
}

// templateForm is the form of one alternative of a template.
type templateForm struct {
	one      Template // the alternative
	groups   clientip.Grouping
	replaces bool // the address replaces a name within the key
}

// Example returns a key with a usual value for each field.
func (f templateForm) Example() (key string) {
	for i, field := range f.one.fields {
		key += f.one.literals[i] + field.example(f.groups)
	}
	return key + f.one.literals[len(f.one.fields)]
}

// example returns a value of the field.
func (f Field) example(groups clientip.Grouping) string {
	switch {
	case f.Kind == Address:
		return keyform.Address(groups).Example()
	case f.isHost():
		return "example.com"
	case f.Kind == Method:
		return "GET"
	case f.Kind == Path:
		return "/login"
	case f.Kind == Query:
		return "page=2"
	}
	return "alice"
}

// Read reads a key with all fields, whose values are encoded as AppendKey does it.
func (f templateForm) Read(text string, pattern bool) (keyform.Match, error) {
	if pattern {
		return keyform.Match{Key: text, Pattern: true}, nil
	}
	texts, ok := f.one.cut(text)
	if !ok {
		return keyform.Match{}, errors.New("does not have all parts of the key")
	}
	for i, field := range f.one.fields {
		value, ok := texts[i], true
		if value == f.one.missing {
			continue
		}
		if len(f.one.fields) > 1 {
			value, ok = f.one.decode(value)
		}
		if address, replaced := strings.CutPrefix(value, addressMark); replaced && f.replaces && field.Kind.NamesClient() && !strings.HasPrefix(texts[i], "%61") {
			field, value = Field{Kind: Address}, address
		}
		if !ok || !field.isAsSent(value, f.groups) || value == "" && field.Kind.NamesClient() && f.replaces {
			return keyform.Match{}, errors.New("has a value that no request has in place of {" + field.String() + "}")
		}
	}
	return keyform.Match{Key: text}, nil
}

// isHost reports whether the field is the host of a request.
func (f Field) isHost() bool { return f.Kind == Host || f.Kind == Header && f.Name == "Host" }

// isAsSent reports whether keys of requests can have this value of the field.
func (f Field) isAsSent(value string, groups clientip.Grouping) bool {
	switch {
	case f.Kind == Address:
		read, err := keyform.Address(groups).Read(value, false)
		return err == nil && !read.Prefix.IsValid()
	case f.isHost():
		return match.CanonicalHost(value) == value
	case f.Kind == Header:
		return strings.TrimSpace(value) == value
	case f.Kind == Method:
		return strings.ToUpper(value) == value
	case f.Kind == Path:
		return match.CanonicalPath(&url.URL{Path: value}) == value
	case f.Kind == Query:
		return !strings.HasPrefix(value, "?")
	}
	return true
}

// cut returns the texts of a key that stand for its fields.
func (t Template) cut(key string) (texts []string, ok bool) {
	rest, ok := strings.CutPrefix(key, t.literals[0])
	for i := range t.fields {
		end := len(rest) - len(t.literals[i+1])
		if i+1 < len(t.fields) {
			end = strings.IndexFunc(rest, func(c rune) bool { return c < 0x80 && c != '%' && t.encoded.has(byte(c)) })
		}
		if !ok || end < 0 || !strings.HasPrefix(rest[end:], t.literals[i+1]) {
			return nil, false
		}
		texts, rest = append(texts, rest[:end]), rest[end+len(t.literals[i+1]):]
	}
	return texts, true
}

// decode returns a value of a key with several fields.
func (t Template) decode(text string) (decoded string, ok bool) {
	var value []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			n, err := strconv.ParseUint(text[min(i+1, len(text)):min(i+3, len(text))], 16, 8)
			if err != nil || i+2 >= len(text) {
				return "", false
			}
			c, i = byte(n), i+2
		} else if t.encoded.has(c) {
			return "", false
		}
		value = append(value, c)
	}
	return string(value), true
}

// OnlySent reports whether only an application that sends keys itself can have this key: this is the default key, and the key is no
// address.
func (t Template) OnlySent(key string) bool { return t.implied && !isAddress(key) }
