package envoy

import (
	"iter"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slidegate/slidegate"
)

// spec is what a rate_limit block says.
type spec struct {
	name       string
	replaces   []string
	unlimited  bool
	shadow     bool // over the limit is told as OK
	quotaMode  bool // over the limit refuses the request only if all such rules of it are
	metadata   *structpb.Struct
	unit       rls.RateLimitResponse_RateLimit_Unit
	multiplier uint32
	limit      slidegate.Limit // with a quota of 0 where all is refused
}

// counted is the limit that the store is asked about. It has no name, so that a rule that is renamed, and a limit that comes
// with the descriptor, go on from the same counts, as they do in the original.
func (s *spec) counted() slidegate.Limit {
	limit := s.limit
	limit.Quota = max(1, limit.Quota)
	return limit
}

// pair is what descriptors of one list differ in. The value is empty for a descriptor that takes any.
type pair struct{ key, value string }

// String is how the original writes a descriptor in the names of its statistics.
func (p pair) String() string {
	if p.value == "" {
		return p.key
	}
	return p.key + "_" + p.value
}

// node is one descriptor of a file.
type node struct {
	pair
	place
	shared bool  // all values that match share one count
	rule   *spec // nil if there is no rate_limit
	next   *level
	bound  *bound // the rule, ready to be asked; nil in what Parse returns
}

// level is one list of descriptors, in the order in which they are tried: the value in full, values with a * in the order of
// the file, any value.
type level struct {
	exact map[pair]*node
	wild  map[string][]*node // by key
}

func newLevel() *level { return &level{exact: map[pair]*node{}, wild: map[string][]*node{}} }

// all returns the descriptors of the list: those with a * in the order of the file, others in any.
func (l *level) all() iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if l == nil {
			return
		}
		for _, n := range l.exact {
			if !yield(n) {
				return
			}
		}
		for _, list := range l.wild {
			for _, n := range list {
				if !yield(n) {
					return
				}
			}
		}
	}
}

func (l *level) add(n *node) {
	if strings.Contains(n.value, "*") {
		l.wild[n.key] = append(l.wild[n.key], n)
		return
	}
	l.exact[n.pair] = n
}

// find returns the descriptor that an entry matches; nil if none does.
func (l *level) find(key, value string) *node {
	if value != "" {
		if n := l.exact[pair{key, value}]; n != nil {
			return n
		}
	}
	for _, n := range l.wild[key] {
		if matches(n.value, value) {
			return n
		}
	}
	return l.exact[pair{key, ""}]
}

// matches tells whether text is like pattern, in which a * stands for any run of bytes, also none.
func matches(pattern, text string) bool {
	head, rest, _ := strings.Cut(pattern, "*")
	if !strings.HasPrefix(text, head) {
		return false
	}
	text = text[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, part)
		}
		i := strings.Index(text, part) // the first place leaves most of the text to what follows
		if i < 0 {
			return false
		}
		text, rest = text[i+len(part):], after
	}
}

// match finds the rule of a descriptor. The file must be exactly as deep as the descriptor has entries. The nodes that were
// passed on the way go into path, for their patterns are part of the address where counts are shared.
func (l *level) match(entries []*common.RateLimitDescriptor_Entry, path []*node) (*bound, []*node) {
	path = path[:0]
	for i, entry := range entries {
		if l == nil {
			return nil, path
		}
		n := l.find(entry.GetKey(), entry.GetValue())
		if n == nil {
			return nil, path
		}
		path = append(path, n)
		if i == len(entries)-1 {
			return n.bound, path
		}
		l = n.next
	}
	return nil, path
}
