package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
)

// FirstOf returns the template that makes the key by the first of several templates whose fields are there: a key of the API,
// or else the user. Where none is, the address of the client counts. Only the fields by which clients name themselves can be
// missing: user, key, header:NAME, claim:NAME and field:PATH, also if they are empty. A template that is never reached is an error.
func FirstOf(templates ...Template) (Template, error) {
	t, _, err := firstOf(templates)
	if err != nil {
		return Template{}, &OptionError{Package: "config", Option: "key", Err: err}
	}
	return t, nil
}

// firstOf is FirstOf, and says which of the templates is wrong.
func firstOf(templates []Template) (made Template, wrong int, err error) {
	if len(templates) == 0 {
		return made, 0, errors.New("there must be at least one template, such as {address}")
	}
	for i, t := range templates {
		if len(t.others) > 0 || t.IsZero() {
			return made, i, errors.New("each must be a template by itself")
		}
		for _, earlier := range templates[:i] {
			if earlier.countsWhere(t) {
				return made, i, fmt.Errorf("%v is never reached, since %v before it counts wherever this does; "+
					"put it first, or leave it out", t, earlier)
			}
		}
	}
	made = templates[0]
	for _, other := range templates[1:] {
		other.mark = other.names()
		made.others = append(made.others, other)
	}
	return made, 0, nil
}

// Alternatives returns the templates that FirstOf was given; t itself if it was made by ParseTemplate.
func (t Template) Alternatives() []Template {
	first := t
	first.others = nil
	all := append([]Template{first}, t.others...)
	for i := range all {
		all[i].mark = ""
	}
	return all
}

// namesClient reports whether a field of this kind is what a client says of itself, and may leave out.
func (k FieldKind) namesClient() bool {
	return k == FieldUser || k == FieldKey || k == FieldHeader || k == FieldJSON || k == FieldClaim
}

// countsWhere reports whether t has a key for every request that other has one for.
func (t Template) countsWhere(other Template) bool {
	for _, field := range t.fields {
		if field.Kind.namesClient() && !slices.Contains(other.fields, field) {
			return false
		}
	}
	return true
}

// hasAll reports whether all the fields are there by which clients name themselves. The values are those of t alone.
func (t Template) hasAll(values [][]byte) bool {
	for i, field := range t.fields {
		if field.Kind.namesClient() && len(values[i]) == 0 {
			return false
		}
	}
	return true
}

// hasAddress reports whether the address is in every key, so that clients without a name do not share one.
func (t Template) hasAddress() bool {
	return slices.ContainsFunc(t.fields, func(f Field) bool { return f.Kind == FieldAddress })
}

// standsIn reports whether the address stands in a key for a name that is missing.
func (t Template) standsIn() bool {
	return len(t.others) > 0 || !t.hasAddress() && slices.ContainsFunc(t.fields, func(f Field) bool { return f.Kind.namesClient() })
}

// choose returns which of the alternatives makes the key, and where its values begin. The last result is false if all of them
// lack something.
func (t *Template) choose(values [][]byte) (alternative, start int, ok bool) {
	if t.hasAll(values) {
		return 0, 0, true
	}
	start = len(t.fields)
	for i := range t.others {
		if t.others[i].hasAll(values[start:]) {
			return i + 1, start, true
		}
		start += len(t.others[i].fields)
	}
	return 0, 0, false
}

// addressMark is what stands in a key before an address that is there instead of a name.
const addressMark = "address:"

// names returns the mark of an alternative: the names of its fields. No mark is the beginning of another, since none of the names
// has a comma or a colon in it but for the one after header and field.
func (t Template) names() string {
	names := make([]string, len(t.fields))
	escape := strings.NewReplacer("%", "%25", ":", "%3A", ",", "%2C")
	for i, field := range t.fields {
		names[i] = field.Kind.String()
		if field.Kind.takesName() {
			names[i] += ":" + escape.Replace(field.Name)
		}
	}
	return strings.Join(names, ",") + ":"
}

// isMarked reports whether a key of the first alternative could be taken for one of another, after any number of signs that were
// put before it for this reason.
func (t *Template) isMarked(key []byte) bool {
	key = bytes.TrimLeft(key, "%")
	if bytes.HasPrefix(key, []byte(addressMark)) {
		return true
	}
	for i := range t.others {
		if bytes.HasPrefix(key, []byte(t.others[i].mark)) {
			return true
		}
	}
	return false
}

// appendChosen appends the key of a template that has others.
func (t Template) appendChosen(dst []byte, values [][]byte, address []byte) []byte {
	alternative, start, ok := t.choose(values)
	switch {
	case !ok && address == nil:
		return append(dst, missing...)
	case !ok:
		return append(append(dst, addressMark...), address...)
	case alternative > 0:
		other := t.others[alternative-1]
		return other.appendFields(append(dst, other.mark...), values[start:], nil)
	}
	from := len(dst)
	dst = t.appendFields(dst, values, nil)
	if t.isMarked(dst[from:]) {
		dst = slices.Insert(dst, from, '%')
	}
	return dst
}

// Canonical returns a key that was given for a policy with this template, and not made of a request, as requests have it: an
// address by the group that it belongs to, however it is written. That is so where the template is the address alone, and for an
// address that stands in for a name, after "address:". Every other key stays what it is, and so does the key of a group. It
// allocates only if an address has to be written.
func (t *Template) Canonical(key string, groups clientip.Grouping) string {
	switch {
	case len(t.others) == 0 && (len(t.fields) != 1 || t.literals[0] != "" || t.literals[1] != ""):
		return key
	case len(t.others) == 0 && t.fields[0].Kind == FieldAddress:
		key, _ = groups.Key(key)
		return key
	case !t.standsIn():
		return key
	}
	if address, marked := strings.CutPrefix(key, addressMark); marked {
		if group, ok := groups.Key(address); ok && group != address {
			return addressMark + group
		}
	}
	return key
}
