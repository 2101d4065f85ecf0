package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/slidegate/slidegate/internal/yamlfile"
	"github.com/slidegate/slidegate/policy"
)

// keyMark precedes a key in a list of clients.
const keyMark = "key:"

// list reads a list of clients.
func (r *reader) list(e yamlfile.Field) (list policy.List) {
	patterns := 0
	for _, item := range r.items(e, "addresses and keys, such as [10.0.0.0/8, key:alice]") {
		text, _, ok := yamlfile.Scalar(item.Value)
		if !ok {
			r.Problems.Addf(item.At, "%s: must be an address, a prefix such as 10.0.0.0/8, or a key, not %s; "+
				`put it in quotes, without a space: "key:alice", "2001:db8::1"`, e.Name, yamlfile.Describe(item.Value))
			continue
		}
		key, isKey := strings.CutPrefix(text, keyMark)
		if !isKey {
			prefix, err := parseAddresses(text)
			switch {
			case errors.Is(err, errNotAddress):
				r.Problems.Addf(item.At, "%s: %w; write key: before a key, as in key:alice", e.Name, err)
			case err != nil:
				r.Problems.Addf(item.At, "%s: %w", e.Name, err)
			default:
				if prefix.Bits() == 0 {
					r.warnEveryone(item.At, e.Name, text)
				}
				list.Addresses = append(list.Addresses, prefix)
			}
			continue
		}
		if strings.Contains(key, "*") {
			patterns++
		}
		if err := checkPattern(key, patterns); err != nil {
			r.Problems.Addf(item.At, "%s: %w", e.Name, err)
		}
		if isEveryKey(key) {
			r.warnEveryone(item.At, e.Name, text)
		}
		r.namedKeys = append(r.namedKeys, namedKey{at: item.At, field: e.Name, key: key})
		list.Keys = append(list.Keys, key)
	}
	return list
}

// Bounds of patterns. The server tries them one by one for every request.
const (
	maxPatterns    = 1000 // in a list
	maxPatternSize = 256  // in bytes
	maxStars       = 16   // in a pattern
)

// checkPattern checks a key or a pattern; patterns is how many the list has, including this one.
func checkPattern(pattern string, patterns int) error {
	switch {
	case pattern == "":
		return errors.New("needs a key after \"key:\"")
	case !strings.Contains(pattern, "*"):
		return nil
	case len(pattern) > maxPatternSize:
		return fmt.Errorf("a pattern may have at most %d bytes", maxPatternSize)
	case strings.Count(pattern, "*") > maxStars:
		return fmt.Errorf("a pattern may have at most %d *", maxStars)
	case patterns > maxPatterns:
		return fmt.Errorf("at most %d patterns, since every request is compared with them", maxPatterns)
	}
	return nil
}
