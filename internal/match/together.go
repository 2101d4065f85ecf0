package match

import (
	"net/http"
	"slices"
	"strings"
)

// Samples returns requests that matchers match, at least one for each pattern, and a function that reports whether the matcher at
// an index matches the sample at another: for checks of policies that can apply to the same request. A nil Matcher matches all of
// them. With many patterns it is much faster than trying every matcher on every sample.
func Samples(matchers []*Matcher) (samples []*http.Request, matches func(sample, matcher int) bool) {
	paths := newTree()
	for i, m := range matchers {
		samples = append(samples, m.Samples()...)
		if m == nil {
			paths.below = append(paths.below, i)
			continue
		}
		for _, pattern := range m.patterns {
			_, _, path := splitPattern(pattern)
			paths.add(path, i)
		}
	}
	last, encoded, candidates := -1, false, []int(nil) // callers go through the samples in order
	return samples, func(sample, matcher int) bool {
		if sample != last {
			path := samples[sample].URL.EscapedPath()
			last, encoded = sample, strings.Contains(path, "%") // such a path has several readings
			candidates = paths.find(candidates[:0], strings.Split(path, "/")[1:])
			slices.Sort(candidates)
		}
		_, found := slices.BinarySearch(candidates, matcher)
		return (found || encoded) && matchers[matcher].Match(samples[sample])
	}
}

// tree finds the matchers whose patterns may match a path, by its segments. It may find too many, but misses none.
type tree struct {
	literal map[string]*tree
	any     *tree // for a wildcard
	here    []int // matchers with a pattern that ends here
	below   []int // and with one that matches everything below
}

func newTree() *tree { return &tree{literal: map[string]*tree{}} }

// add adds the path of a pattern of a matcher.
func (t *tree) add(path string, matcher int) {
	segments := strings.Split(path, "/")[1:]
	for i, segment := range segments {
		switch {
		case segment == "" && i == len(segments)-1, segment == "{$}", strings.HasSuffix(segment, "...}"):
			t.below = append(t.below, matcher)
			return
		case strings.ContainsAny(segment, "{%"): // an encoded segment is compared decoded
			if t.any == nil {
				t.any = newTree()
			}
			t = t.any
		default:
			if t.literal[segment] == nil {
				t.literal[segment] = newTree()
			}
			t = t.literal[segment]
		}
	}
	t.here = append(t.here, matcher)
}

// find appends the matchers for a path.
func (t *tree) find(to []int, segments []string) []int {
	to = append(to, t.below...)
	if len(segments) == 0 {
		return append(to, t.here...)
	}
	if next := t.literal[segments[0]]; next != nil {
		to = next.find(to, segments[1:])
	}
	if t.any != nil {
		to = t.any.find(to, segments[1:])
	}
	return to
}
