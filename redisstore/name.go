package redisstore

import (
	"strconv"
	"strings"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// appendName appends the name of the key that a charge's state is kept under:
//
//	slidegate:api:login:sliding-window-60000000-1-clock:{user-42}
//
// That is a prefix, the namespace, the limit's name, its shape, and the key in braces, or the group in braces and then the
// key. What is in braces decides on which node of a cluster it lies. Bytes that would make two names alike, or that a
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

// appendTag appends what stands in braces. It is never empty, for Redis takes no notice of empty braces.
func appendTag(to []byte, text string) []byte {
	if text == "" {
		return append(to, '%') // which nothing else is written as
	}
	return appendEscaped(to, text)
}

// appendSettledName appends the name of one of the two hashes in which the settlements are remembered whose first charge has
// the name first:
//
//	slidegate:api:tokens:sliding-window-60000000-1-clock:{user-42}%settled-120000000-0
//
// That is the charge's own name, so that it lies on the same node; for how long settlements are remembered; and 0 for even
// generations of them or 1 for odd ones. No name of a state is like it: there a percent sign is followed by two digits.
func appendSettledName(to []byte, first string, memory rule.Micros, generation int) []byte {
	to = append(to, first...)
	to = append(to, settledMark...)
	to = strconv.AppendInt(to, int64(memory), 10)
	return append(to, '-', '0'+byte(generation))
}

const settledMark = "%settled-"

// limitPrefix is the part of a name that does not depend on group and key.
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
