package envoy

import (
	"encoding/binary"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// namespacePrefix separates the counts of domains from all others in the same store: no policy has a slash in its name.
const namespacePrefix = "envoy/"

// The kinds of fields in an address.
const (
	plainValue  = 'v'
	sharedValue = 's' // a pattern, so that no value that Envoy sends can be confused with it
)

// appendAddress writes the address of a descriptor's counts: its entries, each with its length, so that no two lists of
// entries have the same address. The argument path has the nodes that the entries matched, if they were looked up.
func appendAddress(to []byte, entries []*common.RateLimitDescriptor_Entry, path []*node) []byte {
	for i, entry := range entries {
		to = appendField(to, entry.GetKey())
		if i < len(path) && path[i].shared {
			to = appendField(append(to, sharedValue), path[i].value)
			continue
		}
		to = appendField(append(to, plainValue), entry.GetValue())
	}
	return to
}

func appendField(to []byte, field string) []byte {
	to = binary.AppendUvarint(to, uint64(len(field)))
	return append(to, field...)
}
