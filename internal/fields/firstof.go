package fields

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
)

// FirstOf returns a template that makes the key by the first of several templates whose fields are present, such as an API key,
// or otherwise the user. If no template applies, the key is the address of the client. Only the fields by which clients name
// themselves can be missing: user, key, header:NAME, claim:NAME and field:PATH; empty counts as missing. A template that is
// never reached is an error.
//
// In case of an error, it also returns the index of the template that is wrong.
func FirstOf(templates ...Template) (made Template, wrong int, err error) {
	if len(templates) == 0 {
		return made, 0, errors.New("must have at least one template, such as {address}")
	}
	for i, t := range templates {
		if len(t.others) > 0 || t.IsZero() {
			return made, i, errors.New("each item must be a single template")
		}
		for _, earlier := range templates[:i] {
			if earlier.covers(t) {
				return made, i, fmt.Errorf("%v is never reached, since %v before it applies to the same requests; "+
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

// Alternatives returns the templates that were passed to FirstOf; t itself if it was made by ParseTemplate.
func (t Template) Alternatives() []Template {
	first := t
	first.others = nil
	all := append([]Template{first}, t.others...)
	for i := range all {
		all[i].mark = ""
	}
	return all
}

// NamesClient reports whether a field of this kind is a name that clients give themselves, and may omit.
func (k Kind) NamesClient() bool {
	return k == User || k == Key || k == Header || k == JSON || k == Claim
}

// covers reports whether t has a key for every request for which other has one.
func (t Template) covers(other Template) bool {
	for _, field := range t.fields {
		if field.Kind.NamesClient() && !slices.Contains(other.fields, field) {
			return false
		}
	}
	return true
}

// hasAll reports whether all fields by which clients name themselves are present. The values are those of t alone.
func (t Template) hasAll(values [][]byte) bool {
	for i, field := range t.fields {
		if field.Kind.NamesClient() && len(values[i]) == 0 {
			return false
		}
	}
	return true
}

// hasAddress reports whether every key contains the address, so that clients without a name do not share one.
func (t Template) hasAddress() bool {
	return slices.ContainsFunc(t.fields, func(f Field) bool { return f.Kind == Address })
}

// replacesName reports whether the address replaces a missing name in a key.
func (t Template) replacesName() bool {
	return len(t.others) > 0 || !t.hasAddress() && slices.ContainsFunc(t.fields, func(f Field) bool { return f.Kind.NamesClient() })
}

// choose returns the alternative that makes the key, and the index of its first value. ok is false if no alternative applies.
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

// addressMark precedes an address that replaces a name in a key.
const addressMark = "address:"

// names returns the mark of an alternative: the names of its fields. No mark is a prefix of another, since the names contain no
// comma, and no colon except the one after header and field.
func (t Template) names() string {
	names := make([]string, len(t.fields))
	escape := strings.NewReplacer("%", "%25", ":", "%3A", ",", "%2C")
	for i, field := range t.fields {
		names[i] = field.Kind.String()
		if field.Kind.hasName() {
			names[i] += ":" + escape.Replace(field.Name)
		}
	}
	return strings.Join(names, ",") + ":"
}

// isMarked reports whether a key of the first alternative could be confused with a key of another alternative, after removing
// any number of signs that were prepended to avoid this.
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

// appendChosen appends the key of a template that has alternatives.
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

// Canonical converts a key that was given for a policy with this template, rather than made from a request, to the form that
// requests have: an address becomes the group that it belongs to, however it is written. This applies if the template is the
// address alone, and to an address that replaces a name, after "address:". Every other key is returned unchanged, and so is the
// key of a group. It allocates only if an address has to be formatted.
func (t *Template) Canonical(key string, groups clientip.Grouping) string {
	switch {
	case len(t.others) == 0 && (len(t.fields) != 1 || t.literals[0] != "" || t.literals[1] != ""):
		return key
	case len(t.others) == 0 && t.fields[0].Kind == Address:
		key, _ = groups.Key(key)
		return key
	case !t.replacesName():
		return key
	}
	if address, marked := strings.CutPrefix(key, addressMark); marked {
		if group, ok := groups.Key(address); ok && group != address {
			return addressMark + group
		}
	}
	return key
}
