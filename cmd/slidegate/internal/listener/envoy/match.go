package envoy

import (
	"iter"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/keyform"
)

// spec is the content of a rate_limit block.
type spec struct {
	name       string
	replaces   []string
	unlimited  bool
	shadow     bool // over the limit is reported as OK
	quotaMode  bool // over the limit refuses a request only if all its rules in quota mode are over
	metadata   *structpb.Struct
	unit       rls.RateLimitResponse_RateLimit_Unit
	multiplier uint32
	limit      slidegate.Limit // its quota is 0 if everything is refused
}

// storeLimit returns the limit for the store. It has no name, so that a renamed rule, and a limit that comes with the
// descriptor, continue the same counts, as in the original.
func (s *spec) storeLimit() slidegate.Limit {
	limit := s.limit
	limit.Quota = max(1, limit.Quota)
	return limit
}

// pair identifies a descriptor in a list. The value is empty for a descriptor that matches any value.
type pair struct{ key, value string }

// String returns the descriptor as the original writes it in the names of its statistics.
func (p pair) String() string {
	if p.value == "" {
		return p.key
	}
	return p.key + "_" + p.value
}

// node is one descriptor of a file.
type node struct {
	pair
	shared bool  // all matching values share one count
	rule   *spec // nil without a rate_limit
	next   *level
	bound  *bound // the bound rule; nil in the result of Parse
}

// level is one list of descriptors. An exact value is tried first, then values with a * in the order of the file, then
// any value.
type level struct {
	exact map[pair]*node
	wild  map[string][]*node // by key
}

func newLevel() *level { return &level{exact: map[pair]*node{}, wild: map[string][]*node{}} }

// all returns the descriptors of the list: those with a * in the order of the file, others in any order.
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

// find returns the descriptor that matches an entry; nil if none does.
func (l *level) find(key, value string) *node {
	if value != "" {
		if n := l.exact[pair{key, value}]; n != nil {
			return n
		}
	}
	for _, n := range l.wild[key] {
		if keyform.Fits(n.value, value) {
			return n
		}
	}
	return l.exact[pair{key, ""}]
}

// match finds the rule of a descriptor. The file must be exactly as deep as the descriptor has entries. The nodes on
// the way are appended to path, since their patterns are part of the address if counts are shared.
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

// Rules returns how many descriptors of the domain have a rate limit.
func (d *Domain) Rules() int { return d.root.rules() }

func (l *level) rules() (count int) {
	for n := range l.all() {
		if count += n.next.rules(); n.rule != nil {
			count++
		}
	}
	return count
}
