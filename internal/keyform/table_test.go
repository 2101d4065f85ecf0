package keyform

import (
	"fmt"
	"net/netip"
	"testing"
)

// However many prefixes there are, one lookup per length finds one.
func TestPrefixesOfOneLength(t *testing.T) {
	var p Prefixes[int]
	for i := range 5000 {
		p.Add(netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)), i)
	}
	if len(p.lengths4) != 1 || len(p.lengths6) != 0 {
		t.Errorf("got the lengths %v and %v, want one", p.lengths4, p.lengths6)
	}
	found := -1
	p.Each(netip.MustParsePrefix("10.19.135.9/32"), func(value, length int) bool {
		found = value
		return length == 24
	})
	if found != 4999 {
		t.Errorf("got %d, want 4999", found)
	}
}
