package envoy

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

type entry = common.RateLimitDescriptor_Entry

// appendText writes a descriptor as operators read and write it: key=value,key=value. Separators and unprintable
// characters in keys and values are percent-encoded, so that no two descriptors have the same text.
func appendText(to []byte, entries []*entry) []byte {
	for i, e := range entries {
		if i > 0 {
			to = append(to, ',')
		}
		to = appendEscaped(to, e.GetKey())
		to = append(to, '=')
		to = appendEscaped(to, e.GetValue())
	}
	return to
}

func appendEscaped(to []byte, text string) []byte {
	const digits = "0123456789ABCDEF"
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		broken := r == utf8.RuneError && size == 1
		if broken || r == '%' || r == ',' || r == '=' || !unicode.IsPrint(r) {
			for _, b := range []byte(text[:size]) {
				to = append(to, '%', digits[b>>4], digits[b&15])
			}
		} else {
			to = append(to, text[:size]...)
		}
		text = text[size:]
	}
	return to
}

// parseText parses the output of appendText. A key without = has an empty value, and anything may be percent-encoded.
// Errors do not repeat the text, which is a key.
func parseText(text string) (entries []*entry, err error) {
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		if strings.Contains(value, "=") {
			return nil, fmt.Errorf("entry %d of the descriptor has two =; write %%3D for one that belongs to a value", len(entries)+1)
		}
		if key, err = url.PathUnescape(key); err == nil {
			value, err = url.PathUnescape(value)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d of the descriptor has a %% without two hex digits; write %%25 for one that belongs to a value", len(entries)+1)
		}
		if key == "" {
			return nil, fmt.Errorf("entry %d of the descriptor has no key; write key=value,key=value, with %%2C and %%3D for , and = in values", len(entries)+1)
		}
		entries = append(entries, &entry{Key: key, Value: value})
	}
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("the descriptor has %d entries; the maximum is %d", len(entries), MaxEntries)
	}
	return entries, nil
}
