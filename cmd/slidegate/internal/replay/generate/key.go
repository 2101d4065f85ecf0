package generate

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// kind is what a key is: one of the users, and so on.
type kind uint8

const (
	user kind = iota
	bot
	edge
	scraper
	kinds // how many there are
)

// prefixes begin the keys, and digits is how many digits follow at least.
var (
	prefixes = [kinds]string{"user-", "bot-", "edge-", "scraper-"}
	digits   = [kinds]int{4, 5, 2, 1}
)

// who is a key before it is written: the number, from 1, of its kind.
type who struct {
	kind   kind
	number int64
}

// appendKey writes the key with so many digits, or more if the number has them.
func (w who) appendKey(b []byte, width int) []byte {
	b = append(b, prefixes[w.kind]...)
	for n := len(strconv.AppendInt(b, w.number, 10)) - len(b); n < width; n++ {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, w.number, 10)
}

// widthOf returns how many digits the keys of a kind have if there are so many.
func widthOf(k kind, keys int64) int {
	return max(digits[k], len(strconv.FormatInt(keys, 10)))
}

// blocks are the networks of IPv4 for documentation; the first keys of each kind have addresses in them.
var blocks = [kinds]struct {
	network [3]byte
	skip    int64 // addresses at the beginning that belong to others
	keys    int64
}{
	user:    {[3]byte{192, 0, 2}, 0, 254},
	bot:     {[3]byte{198, 51, 100}, 0, 254},
	edge:    {[3]byte{203, 0, 113}, 100, 154},
	scraper: {[3]byte{203, 0, 113}, 0, 100},
}

// network64Bits is how many bits of an address of IPv6 number the networks of a kind. Each key has a /64 of its own in
// 2001:db8::/32: two bits are for the kind, the rest for more keys of it than there can be.
const network64Bits = 30

// scatter is odd, so that multiplying by it gives different numbers different networks, which look like anybody's.
const scatter = 0x2545f491

// address returns where the key's requests come from: always the same, and no other key's, in the ranges that are
// reserved for documentation.
func (w who) address() netip.Addr {
	if b := &blocks[w.kind]; w.number <= b.keys {
		return netip.AddrFrom4([4]byte{b.network[0], b.network[1], b.network[2], byte(b.skip + w.number)})
	}
	network := uint32(w.kind)<<network64Bits | uint32(w.number)*scatter&(1<<network64Bits-1)
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}
	binary.BigEndian.PutUint32(a[4:], network)
	return netip.AddrFrom16(a)
}
