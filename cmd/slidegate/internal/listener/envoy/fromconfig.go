package envoy

import (
	"fmt"
	"slices"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconfig "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// FromConfig converts the configuration that a management server sends to a domain. It has the same meaning as in a
// file without additions, except that a * in a key stands for itself: Envoy Gateway names routes of all hosts so. The error joins all problems, at most ten, each with its field.
func FromConfig(given *rlsconfig.RateLimitConfig) (*Domain, error) {
	c := &converter{from: "resource " + errtext.Quote(given.GetName()), where: map[*node]location{}}
	d := &Domain{name: given.GetDomain(), at: location{file: c.from}, where: c.where}
	if d.name == "" {
		c.addProblem("domain", "must not be empty")
	}
	d.root = c.level("descriptors", given.GetDescriptors(), 1)
	if err := c.problems.Join(c.from); err != nil {
		return nil, err
	}
	return d, nil
}

// converter converts one domain.
type converter struct {
	from     string
	where    map[*node]location
	problems yamlfile.Problems
}

func (c *converter) addProblem(field, format string, args ...any) {
	c.problems.Addf(yamlfile.Position{}, "%s: %w", field, fmt.Errorf(format, args...))
}

func (c *converter) level(field string, given []*rlsconfig.RateLimitDescriptor, depth int) *level {
	if len(given) == 0 {
		return nil
	}
	if depth > yamlfile.MaxDepth {
		c.addProblem(field, "descriptors are nested more than %d deep", yamlfile.MaxDepth)
		return nil
	}
	l := newLevel()
	for i, one := range given {
		at := fmt.Sprintf("%s[%d]", field, i)
		n := c.node(at, one, depth)
		switch {
		case n.key == "":
			c.addProblem(at+".key", "must not be empty")
		case l.lookup(n.pair) != nil:
			c.addProblem(at, "duplicate key and value; another descriptor has them")
		default:
			l.add(n)
		}
	}
	return l
}

func (c *converter) node(at string, given *rlsconfig.RateLimitDescriptor, depth int) *node {
	n := &node{pair: pair{given.GetKey(), given.GetValue()}}
	c.where[n] = location{file: c.from}
	n.next = c.level(at+".descriptors", given.GetDescriptors(), depth+1)
	if given.GetRateLimit() == nil {
		return n
	}
	n.rule = c.rule(at+".rate_limit", given.GetRateLimit())
	n.rule.shadow = given.GetShadowMode()
	var err error
	if n.rule.quotaMode, n.rule.metadata, err = newerFields(given); err != nil {
		c.addProblem(at+".metadata", "%w", err)
	}
	return n
}

func (c *converter) rule(at string, given *rlsconfig.RateLimitPolicy) *spec {
	s := &spec{name: given.GetName(), unlimited: given.GetUnlimited(), multiplier: 1}
	for i, other := range given.GetReplaces() {
		field := fmt.Sprintf("%s.replaces[%d].name", at, i)
		switch {
		case other.GetName() == "":
			c.addProblem(field, "must not be empty")
		case other.GetName() == s.name:
			c.addProblem(field, "%s is this rate_limit's own name", errtext.Quote(s.name))
		}
		s.replaces = append(s.replaces, other.GetName())
	}
	s.unit = rls.RateLimitResponse_RateLimit_Unit(given.GetUnit()) // both enumerations have the same numbers
	known := slices.ContainsFunc(units, func(u timeUnit) bool { return u.unit == s.unit })
	switch {
	case s.unlimited && known:
		c.addProblem(at+".unit", "has no effect when unlimited")
	case !s.unlimited && !known:
		c.addProblem(at+".unit", "must be one of %s", strings.ToUpper(strings.Join(unitNames, ", ")))
	case !s.unlimited:
		s.limit = slidegate.Limit{
			Quota: int64(given.GetRequestsPerUnit()), Window: lengthOf(s.unit), Algorithm: slidegate.FixedWindow, CountRefused: true,
		}
	}
	return s
}

// The numbers of descriptor fields that the Go type lacks.
const (
	quotaModeField = 7
	metadataField  = 8
)

// newerFields reads the fields of a descriptor that its Go type lacks, from the bytes that protobuf keeps for unknown
// fields.
func newerFields(given *rlsconfig.RateLimitDescriptor) (quotaMode bool, metadata *structpb.Struct, err error) {
	for rest := given.ProtoReflect().GetUnknown(); len(rest) > 0; {
		number, kind, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return false, nil, protowire.ParseError(n)
		}
		value := rest[n:]
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return false, nil, protowire.ParseError(n)
		}
		rest = value[n:]
		switch {
		case number == quotaModeField && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			quotaMode = v != 0
		case number == metadataField && kind == protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			metadata = &structpb.Struct{}
			if err := proto.Unmarshal(text, metadata); err != nil {
				return false, nil, err
			}
		}
	}
	return quotaMode, metadata, nil
}
