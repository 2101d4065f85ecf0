package envoy

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"pgregory.net/rapid"

	"github.com/slidegate/slidegate/store"
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

// The counts of a descriptor are found again by a later version: these are the namespace, the group and the keys of v0.1.0.
func TestReleasedAddresses(t *testing.T) {
	r := newRig(t, Options{}, "domain: web\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 5}\n"+
		"  - key: path\n    value: /a*\n    share_threshold: true\n    rate_limit: {unit: minute, requests_per_unit: 5}\n")
	var seen []string
	r.store.Store = watched{r.store.Store, func(q *store.Request) {
		for _, c := range q.Charges {
			seen = append(seen, fmt.Sprintf("%q %q %q %s", c.Limit.Namespace(), q.Group, c.Key, c.Limit.Rule().Algorithm))
		}
	}}
	r.send(request("web", 1, "user=bob"))
	r.send(request("web", 1, "path=/abc"))
	want := []string{
		`"envoy/web" "" "\x04userv\x03bob" fixed-window`, // the key, v for a value, and the value, with their lengths
		`"envoy/web" "" "\x04paths\x03/a*" fixed-window`, // s for a shared value, which is the pattern
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got the addresses\n%s, want\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

// watched is a store that shows its requests.
type watched struct {
	store.Store
	show func(*store.Request)
}

func (w watched) Apply(ctx context.Context, batch []store.Request) error {
	for i := range batch {
		w.show(&batch[i])
	}
	return w.Store.Apply(ctx, batch)
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
