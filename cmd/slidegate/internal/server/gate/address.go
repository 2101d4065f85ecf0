package gate

import (
	"net/netip"
	"strings"

	"github.com/slidegate/slidegate/clientip"
)

// addressMark precedes the address in the key of a client that has no name.
const addressMark = "address:"

// addressNote is the note of an explanation that leaves lists of addresses out.
const addressNote = "the key does not tell the client's address, so the addresses in allow and deny are not applied here; explain --request with --address applies them"

// addressIn returns the client's address if the key is one, as an application sends it or as requests have it. The lists of
// addresses then apply to a client that is known by its key only as they do to its requests.
func (p *compiled) addressIn(key string) netip.Addr {
	rest, marked := strings.CutPrefix(key, addressMark)
	if !marked && !p.byAddress {
		return netip.Addr{}
	}
	addr, _ := clientip.Parse(rest) // a group of addresses is none
	return addr
}

// addressOf returns the address in what an operator wrote, if the key is the one of that address: the key may be the whole
// group that the address belongs to.
func (p *compiled) addressOf(text, key string) netip.Addr {
	text = strings.TrimPrefix(text, "=")
	for _, mark := range []string{addressMark, "address="} {
		text = strings.TrimPrefix(text, mark)
	}
	if addr, ok := clientip.Parse(text); ok {
		group, _ := p.groups.Key(text)
		if rest, marked := strings.CutPrefix(key, addressMark); rest == group && (marked || p.byAddress) {
			return addr
		}
	}
	return p.addressIn(key)
}
