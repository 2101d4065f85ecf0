package keyform

import "strings"

// Fits reports whether a key matches a pattern. In a pattern * stands for any sequence of bytes, including none,
// and every other byte for itself; a literal * needs no escape, since * matches it too. The time is linear in the
// lengths of the pattern and the key: each part between two stars is searched for once, starting where the previous one
// was found.
func Fits(pattern, key string) bool {
	before, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == key
	}
	if !strings.HasPrefix(key, before) {
		return false
	}
	key = key[len(before):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(key, part)
		}
		// The leftmost match is the best one: it leaves the most for the parts that follow.
		at := strings.Index(key, part)
		if at < 0 {
			return false
		}
		key, rest = key[at+len(part):], after
	}
}
