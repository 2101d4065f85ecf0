package redisstore

import (
	"strings"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/store"
)

// appendName appends the name of the key for a charge's state:
//
//	slidegate:api:login:sliding-window-60000000-1-clock:{user-42}
//
// The parts are a prefix, the namespace, the limit's name, its shape, and the key in braces, or the group in braces and
// then the key. What is in braces determines the node of a cluster. Bytes that would make two names equal, or that a
// terminal does not show, are written as %XX.
func appendName(to []byte, prefix, group, key string) []byte {
	to = append(to, prefix...)
	to = append(to, '{')
	if group == "" {
		return append(appendTag(to, key), '}')
	}
	to = appendTag(to, group)
	to = append(to, "}:"...)
	return appendEscaped(to, key)
}

// appendTag appends the text in braces. It is never empty, because Redis ignores empty braces.
func appendTag(to []byte, text string) []byte {
	if text == "" {
		return append(to, '%') // no other text is written as this
	}
	return appendEscaped(to, text)
}

// appendSettledName appends the name of one of the two hashes that remember settlements and calls whose first charge has the
// name first:
//
//	slidegate:api:tokens:sliding-window-60000000-1-clock:{user-42}%settled-0
//
// The parts are the charge's own name, so that the hash is on the same node; and 0 for even generations or 1 for odd ones.
// No name of a state looks like it: there a percent sign is followed by two digits.
func appendSettledName(to []byte, first string, generation int) []byte {
	to = append(to, first...)
	to = append(to, settledMark...)
	return append(to, '0'+byte(generation))
}

const settledMark = "%settled-"

// limitPrefix returns the part of a name that does not depend on group and key.
func limitPrefix(prefix string, limit *store.Limit) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, part := range []string{limit.Namespace(), limit.Name(), shape.Name(limit.Rule())} {
		b.WriteByte(':')
		b.Write(appendEscaped(nil, part))
	}
	b.WriteByte(':')
	return b.String()
}

func appendEscaped(to []byte, text string) []byte { return shape.AppendEscaped(to, text, "%{}:") }

// slot returns the hash slot of a key's name, as defined by Redis Cluster: the CRC-16 (XMODEM) of the text between the
// first pair of braces, modulo 16384. Names made by this package always have braces, and they are never empty.
func slot(name string) uint16 {
	open := strings.IndexByte(name, '{')
	tag := name[open+1:]
	tag = tag[:strings.IndexByte(tag, '}')]
	return tagSlot(tag)
}

// tagSlot returns the hash slot of names with a text between their braces.
func tagSlot[T string | []byte](tag T) uint16 {
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % slots
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
