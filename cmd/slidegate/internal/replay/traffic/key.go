package traffic

import (
	"bytes"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/routing"
	"github.com/slidegate/slidegate/internal/fields"
	"github.com/slidegate/slidegate/internal/match"
)

// keyer builds the key of each request.
type keyer struct {
	template fields.Template // if it is zero, the key is the only value
	grouping clientip.Grouping
	slots    []int // for each field of the template, its index in the values of an entry
	values   [][]byte
	buf      []byte
	grouped  []byte
}

// noValue is the key of requests that lack the default key field, if no template is given. Logs and templates write a
// missing value this way.
var noValue = []byte("-")

// of returns the key, which is valid until the next call, and reports whether a field of it was missing.
func (k *keyer) of(e *entry) (name []byte, missing bool) {
	k.grouped = k.grouped[:0]
	for i, slot := range k.slots {
		value := e.values[slot]
		switch {
		case value == nil:
			missing = true
		case slot == int(fieldAddress):
			value = k.group(value)
		case slot == int(fieldHost) || slot == int(fieldPath) || slot == int(fieldMethod):
			value = canonical(field(slot), value)
		}
		k.values[i] = value
	}
	if k.template.IsZero() {
		if missing {
			return noValue, true
		}
		return k.values[0], false
	}
	var address []byte // replaces a missing field, as in live requests
	if text := e.values[fieldAddress]; text != nil && missing {
		address = k.group(text)
	}
	k.buf = k.template.AppendKeyOr(k.buf[:0], k.values, address)
	return k.buf, missing
}

// canonical returns a host, a method or a path in the form used in the keys of live requests, so that all its spellings are one
// key.
func canonical(f field, value []byte) []byte {
	if f == fieldMethod {
		return bytes.ToUpper(value)
	}
	if f == fieldHost {
		if host := match.CanonicalHost(string(value)); host != string(value) {
			return []byte(host)
		}
		return value
	}
	target, ok := routing.Target(string(value))
	if !ok {
		return value
	}
	if cleaned := match.CanonicalPath(target); cleaned != string(value) {
		return []byte(cleaned)
	}
	return value
}

// group returns the key of an address. Anything else, such as a host name, is returned unchanged.
func (k *keyer) group(text []byte) []byte {
	start := len(k.grouped)
	grouped, ok := k.grouping.AppendText(k.grouped, text)
	if !ok {
		return text
	}
	k.grouped = grouped
	return grouped[start:len(grouped):len(grouped)]
}
