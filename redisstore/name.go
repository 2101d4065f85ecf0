package redisstore

import (
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/rule"
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

// appendSettledName appends the name of one of the two hashes that remember settlements whose first charge has the name
// first:
//
//	slidegate:api:tokens:sliding-window-60000000-1-clock:{user-42}%settled-120000000-0
//
// The parts are the charge's own name, so that the hash is on the same node; how long settlements are remembered; and 0
// for even generations of them or 1 for odd ones. No name of a state looks like it: there a percent sign is followed by
// two digits.
func appendSettledName(to []byte, first string, memory rule.Micros, generation int) []byte {
	to = append(to, first...)
	to = append(to, settledMark...)
	to = strconv.AppendInt(to, int64(memory), 10)
	return append(to, '-', '0'+byte(generation))
}

const settledMark = "%settled-"

// limitPrefix returns the part of a name that does not depend on group and key.
func limitPrefix(prefix string, limit *store.Limit) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, part := range []string{limit.Namespace(), limit.Name(), limit.Rule().Shape().String()} {
		b.WriteByte(':')
		b.Write(appendEscaped(nil, part))
	}
	b.WriteByte(':')
	return b.String()
}

func appendEscaped(to []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c > '~' || strings.IndexByte("%{}:", c) >= 0:
			to = append(to, '%', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return to
}
