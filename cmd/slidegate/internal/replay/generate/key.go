package generate

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// kind is the kind of a key: a user, a bot and so on.
type kind uint8

const (
	user kind = iota
	bot
	edge
	scraper
	kinds // the number of kinds
)

// prefixes holds the prefixes of the keys, and digits the minimum number of digits that follow each.
var (
	prefixes = [kinds]string{"user-", "bot-", "edge-", "scraper-"}
	digits   = [kinds]int{4, 5, 2, 1}
)

// keyID identifies a key by its kind and its number in the kind, from 1.
type keyID struct {
	kind   kind
	number int64
}

// appendKey appends the key with at least width digits.
func (w keyID) appendKey(b []byte, width int) []byte {
	b = append(b, prefixes[w.kind]...)
	for n := len(strconv.AppendInt(b, w.number, 10)) - len(b); n < width; n++ {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, w.number, 10)
}

// widthOf returns the number of digits in the keys of a kind, given the number of keys.
func widthOf(k kind, keys int64) int {
	return max(digits[k], len(strconv.FormatInt(keys, 10)))
}

// blocks are the IPv4 networks for documentation, which contain the addresses of the first keys of each kind.
var blocks = [kinds]struct {
	network [3]byte
	skip    int64 // addresses at the beginning that belong to another kind
	keys    int64
}{
	user:    {[3]byte{192, 0, 2}, 0, 254},
	bot:     {[3]byte{198, 51, 100}, 0, 254},
	edge:    {[3]byte{203, 0, 113}, 100, 154},
	scraper: {[3]byte{203, 0, 113}, 0, 100},
}

// network64Bits is the number of bits of an IPv6 address that number the networks of a kind. Each key has a separate /64
// in 2001:db8::/32: two bits are for the kind, and the rest is enough for the maximum number of keys.
const network64Bits = 30

// scatter is odd, so that multiplying by it maps different numbers to different networks, which look random.
const scatter = 0x2545f491

// address returns the address of the key, from the ranges reserved for documentation. It is unique and never changes.
func (w keyID) address() netip.Addr {
	if b := &blocks[w.kind]; w.number <= b.keys {
		return netip.AddrFrom4([4]byte{b.network[0], b.network[1], b.network[2], byte(b.skip + w.number)})
	}
	network := uint32(w.kind)<<network64Bits | uint32(w.number)*scatter&(1<<network64Bits-1)
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}
	binary.BigEndian.PutUint32(a[4:], network)
	return netip.AddrFrom16(a)
}
