package envoy

import (
	"unicode"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

type entry = common.RateLimitDescriptor_Entry

// appendText writes a descriptor as operators read it: key=value,key=value. Separators and unprintable
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
