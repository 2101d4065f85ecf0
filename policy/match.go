package policy

import "strings"

// matchKey reports whether a key fits a pattern. In a pattern * stands for any run of bytes, also an empty one, and all else
// for itself; a literal * needs no escape, since one that stands for any run matches it too. It takes time that
// grows with the length of the pattern and of the key, but not with their product or worse: each part between two stars is
// looked for once, from where the one before it was found.
func matchKey(pattern, key string) bool {
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
		// The leftmost place is the best one: it leaves the most for the parts that follow.
		at := strings.Index(key, part)
		if at < 0 {
			return false
		}
		key, rest = key[at+len(part):], after
	}
}
