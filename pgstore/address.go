package pgstore

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/slidegate/slidegate/internal/shape"
	"github.com/slidegate/slidegate/store"
)

// maxAddress is the longest address that is stored as it is: a page of an index must hold several.
const maxAddress = 512

// appendAddress appends the address of the row with a charge's state:
//
//	api:login:sliding-window-60000000-1-clock::user-42
//
// The parts are the namespace, the limit's name, its shape, the group and the key. Bytes that would make two addresses
// equal, or that a terminal does not show, are written as %XX, so an address is text in every encoding of a database
// and readable in psql; as bytes with length prefixes it would be just as long. A very long address is replaced by its
// SHA-256, after a mark that no other address begins with.
func appendAddress(to []byte, prefix, group, key string) []byte {
	from := len(to)
	to = append(to, prefix...)
	to = appendEscaped(to, group)
	to = append(to, ':')
	to = appendEscaped(to, key)
	if len(to)-from <= maxAddress {
		return to
	}
	sum := sha256.Sum256(to[from:])
	to = append(to[:from], "%sha256:"...)
	return hex.AppendEncode(to, sum[:])
}

// limitPrefix returns the part of an address that does not depend on group and key.
func limitPrefix(limit *store.Limit) string {
	var prefix []byte
	for _, part := range []string{limit.Namespace(), limit.Name(), shape.Name(limit.Rule())} {
		prefix = append(appendEscaped(prefix, part), ':')
	}
	return string(prefix)
}

func appendEscaped(to []byte, text string) []byte { return shape.AppendEscaped(to, text, `%:"\`) }
