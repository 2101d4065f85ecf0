package envoy

import (
	"encoding/binary"
	"fmt"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"pgregory.net/rapid"
)

// Addresses can be parsed back, so they are unambiguous: no two lists of entries have the same address, and no value is
// taken for a pattern.
func TestAddressesAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []*common.RateLimitDescriptor_Entry
		var path []*node
		want := ""
		for range rapid.IntRange(0, 4).Draw(t, "entries") {
			text := rapid.StringMatching(`[vsa_*\x00-\x05]{0,5}`)
			key, value, n := text.Draw(t, "key"), text.Draw(t, "value"), &node{}
			parsed := fmt.Sprintf("%q=%q;", key, value)
			if rapid.Bool().Draw(t, "shared") {
				n.shared, n.value = true, text.Draw(t, "pattern")
				parsed = fmt.Sprintf("%q~%q;", key, n.value)
			}
			entries = append(entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
			path = append(path, n)
			want += parsed
		}
		if got := readAddress(t, appendAddress(nil, entries, path)); got != want {
			t.Fatalf("got %[2]s, want %[1]s", want, got)
		}
	})
}

func readAddress(t *rapid.T, address []byte) (parsed string) {
	field := func() string {
		length, n := binary.Uvarint(address)
		if n <= 0 || uint64(len(address)-n) < length {
			t.Fatalf("%q does not begin with a field", address)
		}
		text := string(address[n : n+int(length)])
		address = address[n+int(length):]
		return text
	}
	for len(address) > 0 {
		key := field()
		kind := address[0]
		address = address[1:]
		parsed += fmt.Sprintf("%q%s%q;", key, map[byte]string{plainValue: "=", sharedValue: "~"}[kind], field())
	}
	return parsed
}
