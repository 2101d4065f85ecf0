package shape

import (
	"strings"
	"sync/atomic"
)

// Names remembers the part of an address that a store makes of a limit. The zero value is empty. It is safe for concurrent use, and its
// size is fixed: where limits are created per request, they displace one another.
type Names struct{ cells [4096]atomic.Pointer[name] }

type name struct {
	limit uint64
	text  string
}

// Of returns what make returns for the limit with an ID.
func (n *Names) Of(limit uint64, make func() string) string {
	cell := &n.cells[limit%uint64(len(n.cells))]
	known := cell.Load()
	if known == nil || known.limit != limit {
		known = &name{limit, make()}
		cell.Store(known)
	}
	return known.text
}

// AppendEscaped appends a part of an address. Bytes that a terminal does not show, and those that are reserved, because they would make two
// addresses equal, are written as %XX.
func AppendEscaped(to []byte, text, reserved string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c > '~' || strings.IndexByte(reserved, c) >= 0:
			to = append(to, '%', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return to
}
