package fields

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/keyform"
	"github.com/slidegate/slidegate/internal/match"
)

// Form returns how people write the keys of this template, in lists and overrides and in rulings: a name as it is, an address
// in any notation, a prefix of addresses, and all fields of a template with several. For a template made by FirstOf, a text
// means the key of every alternative that it can be, or of the one whose name is before it, as in header:X-User:alice. An
// address also means the clients that are counted by it because they have no name.
//
// The default key, of a policy without one, is the address for requests over HTTP; applications that send keys themselves may
// send any, so that every other text means itself.
func (t Template) Form(groups clientip.Grouping) keyform.Form {
	if t.implied {
		return impliedForm{keyform.Address(groups)}
	}
	var parts []keyform.Part
	needsAddress := t.replacesName() && (len(t.others) > 0 || t.isBare()) // others replace a name within the key
	for i, one := range append([]Template{t}, t.others...) {
		form := templateForm{whole: t, groups: groups, alternative: i}
		form.one = t.Alternatives()[i]
		part := keyform.Part{Name: strings.TrimSuffix(one.names(), ":"), Form: form}
		if i > 0 {
			part.Mark = one.mark
		}
		if form.one.isAddress() {
			part.Form = keyform.Address(groups)
		}
		needsAddress = needsAddress && part.Mark != addressMark
		parts = append(parts, part)
	}
	if needsAddress {
		parts = append(parts, keyform.Part{Name: Address.String(), Mark: addressMark, Form: keyform.Address(groups)})
	}
	if form, ok := parts[0].Form.(templateForm); ok && len(parts) == 1 {
		form.alone = true
		return form
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

// Read reads an address, a prefix, or a key that an application sends.
func (f impliedForm) Read(text string, pattern bool) (keyform.Meaning, error) {
	read, err := f.address.Read(text, pattern)
	if _, notPrefix := netip.ParsePrefix(text); err != nil && notPrefix != nil {
		return keyform.Text.Read(text, pattern)
	}
	return read, err
}

// templateForm is the form of one alternative of a template.
type templateForm struct {
	whole       Template
	one         Template // the alternative
	alternative int
	alone       bool // there is no other
	groups      clientip.Grouping
}

// Read reads the value of the only field, or a text with all fields.
func (f templateForm) Read(text string, pattern bool) (keyform.Meaning, error) {
	switch {
	case pattern:
		return f.readPattern(text)
	case len(f.one.fields) > 1:
		return f.readFields(text)
	}
	value, _ := f.cutLiterals(f.cutName(text))
	values := [][]byte{[]byte(value)}
	address, err := f.canonical(values)
	if err != nil {
		return keyform.Meaning{}, err
	}
	key := f.key(values, address)
	if string(values[0]) != value { // it is written differently, and an address may be replaced in the key
		return keyform.Meaning{Text: key, Keys: []keyform.Match{{Key: key}}}, nil
	}
	read := keyform.Meaning{Text: text, Keys: []keyform.Match{{Key: key}}}
	if f.one.isBare() && key != value { // it may be written as requests have it
		read.Keys = append(read.Keys, keyform.Match{Key: value})
	}
	return read, nil
}

// cutName removes the name of the only field and an equals sign from a text. FirstOfForm does it where there are alternatives. A
// query may itself begin so.
func (f templateForm) cutName(text string) string {
	field := f.one.fields[0]
	name, value, found := strings.Cut(text, "=")
	if f.alone && found && field.Kind != Query && name != "" && (strings.EqualFold(name, field.String()) || strings.EqualFold(name, field.Name)) {
		return value
	}
	if rest, found := strings.CutPrefix(text, field.String()+":"); f.alone && found && field.Kind.hasName() {
		return rest
	}
	return text
}

// canonical replaces the values of the fields by what requests have. It returns the address that replaces a missing name, if there
// is one.
func (f templateForm) canonical(values [][]byte) (address []byte, err error) {
	for i, field := range f.one.fields {
		inPlace, replaced := strings.CutPrefix(string(values[i]), addressMark)
		replaced = replaced && field.Kind.NamesClient() && !f.one.hasAddress() && len(f.whole.others) == 0
		switch {
		case values[i] == nil:
			continue
		case replaced:
			field = Field{Kind: Address}
		default:
			inPlace = string(values[i])
		}
		if inPlace == "" && field.Kind.NamesClient() && !f.one.hasAddress() {
			return nil, fmt.Errorf("must have a value in place of {%v}; write address:203.0.113.7 for a client without one", field)
		}
		value, err := field.valueAsSent(inPlace, false, f.groups)
		if err != nil {
			return nil, err
		}
		values[i] = []byte(value)
		if replaced {
			values[i], address = nil, []byte(value)
		}
	}
	return address, nil
}

// cutLiterals removes the text around the only field.
func (f templateForm) cutLiterals(text string) (value string, ok bool) {
	before, after := f.one.literals[0], f.one.literals[1]
	if len(text) < len(before)+len(after) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		return text, false
	}
	return text[len(before) : len(text)-len(after)], true
}

// readPattern returns a pattern of keys. In a template with several fields, it is compared with the whole key; where it has a text
// for each of them, these are as for a single key.
func (f templateForm) readPattern(text string) (keyform.Meaning, error) {
	if strings.Trim(text, "*") == "" {
		return keyform.Meaning{Text: text, Keys: []keyform.Match{{Key: text, Pattern: true}}}, nil
	}
	values, ok := f.one.cut(text)
	if !ok && len(f.one.fields) == 1 {
		values, ok = []string{f.cutName(text)}, true
	}
	key := f.one.startAsSent(text)
	if ok {
		key = f.one.literals[0]
		for i, field := range f.one.fields {
			value, err := values[i], error(nil)
			if strings.Trim(value, "*") != "" && (len(values) == 1 || value != f.one.missing && !strings.Contains(value, "%")) {
				value, err = field.valueAsSent(value, strings.Contains(value, "*"), f.groups)
			}
			if err != nil {
				return keyform.Meaning{}, err
			}
			key += value + f.one.literals[i+1]
		}
	}
	return keyform.Meaning{Text: text, Keys: []keyform.Match{{Key: key, Pattern: true}}}, nil
}

// startAsSent returns a pattern in which a * stands for several fields, with the host, the method or the path at its start in the case
// that requests have.
func (t Template) startAsSent(text string) string {
	rest, ok := strings.CutPrefix(text, t.literals[0])
	end := strings.IndexAny(rest, "*"+t.literals[1])
	switch {
	case !ok || end < 0:
		return text
	case t.fields[0].Kind == Method:
		return t.literals[0] + strings.ToUpper(rest[:end]) + rest[end:]
	case t.fields[0].isHost():
		return t.literals[0] + strings.ToLower(rest[:end]) + rest[end:]
	case t.fields[0].Kind == Path:
		return t.literals[0] + match.Lower(rest[:end]) + rest[end:]
	}
	return text
}

// key returns the key of the alternative with these values, without its mark.
func (f templateForm) key(values [][]byte, address []byte) string {
	all := make([][]byte, 0, 8)
	for i, one := range f.whole.Alternatives() {
		if i == f.alternative {
			all = append(all, values...)
		} else {
			all = append(all, make([][]byte, len(one.fields))...)
		}
	}
	key := string(f.whole.AppendKeyOr(nil, all, address))
	if f.alternative > 0 {
		key = strings.TrimPrefix(key, f.whole.others[f.alternative-1].mark)
	}
	return key
}

// readFields reads a text with all fields of the template, whose values are encoded as in keys; see AppendKey.
func (f templateForm) readFields(text string) (keyform.Meaning, error) {
	values, ok := f.one.split(text)
	if !ok {
		between := f.one.literals[1][:1]
		return keyform.Meaning{}, fmt.Errorf("must have all fields of the key, as in %s; inside a value, write %%%02X for %s and %%25 for %%",
			strconv.Quote(f.one.String()), between[0], strconv.Quote(between))
	}
	address, err := f.canonical(values)
	if err != nil {
		return keyform.Meaning{}, err
	}
	key := f.key(values, address)
	return keyform.Meaning{Text: key, Keys: []keyform.Match{{Key: key}}}, nil
}

// split returns the values of the fields of a key; nil for a missing one.
func (t Template) split(key string) (values [][]byte, ok bool) {
	texts, ok := t.cut(key)
	for _, text := range texts {
		value, valid := t.decode(text)
		values, ok = append(values, value), ok && valid
	}
	return values, ok
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

// decode returns a value of a key with several fields; nil if it is missing.
func (t Template) decode(text string) (value []byte, ok bool) {
	if text == t.missing {
		return nil, true
	}
	value = []byte{}
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			n, err := strconv.ParseUint(text[min(i+1, len(text)):min(i+3, len(text))], 16, 8)
			if err != nil || i+2 >= len(text) {
				return nil, false
			}
			c, i = byte(n), i+2
		} else if t.encoded.has(c) {
			return nil, false
		}
		value = append(value, c)
	}
	return value, true
}

// OnlySent reports whether only an application that sends keys itself can have a key that Form reads as this text: this is the
// default key, and the text is not about an address.
func (t Template) OnlySent(text string) bool {
	if !t.implied {
		return false
	}
	_, err := keyform.Address(clientip.Grouping{}).Read(text, false)
	return err != nil
}
