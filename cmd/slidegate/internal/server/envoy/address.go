package envoy

import (
	"encoding/binary"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// namespacePrefix keeps the counts of domains apart from those of anything else in the same store: no policy has a slash in
// its name.
const namespacePrefix = "envoy/"

// What a field of an address is.
const (
	plainValue  = 'v'
	sharedValue = 's' // a pattern, which no value that somebody sends can be taken for
)

// appendAddress writes what tells the counts of a descriptor from those of all others: its entries, each with its length, so
// that no two lists of entries are written alike. Path has the nodes that the entries matched, if they were looked for.
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
