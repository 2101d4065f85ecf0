package envoy

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// Charging is how a request over several descriptors is charged.
type Charging uint8

// Values of Charging.
const (
	// ChargeEach charges every descriptor separately, whatever happens to the others, as the original does.
	ChargeEach Charging = iota
	// ChargeAll charges all descriptors or, if one of them is over its limit, none.
	ChargeAll
)

var chargingNames = []string{"each", "all"}

// String returns the word that files use.
func (c Charging) String() string { return chargingNames[c] }

// Domain is the content of one file: a domain and its descriptors. Parse and FromConfig return it; Merge merges
// several. It is immutable and safe to share.
type Domain struct {
	name     string
	at       location // the location of charging if the file sets it, otherwise the file
	charging Charging
	root     *level
	where    map[*node]location // of its descriptors
}

// Name returns the name of the domain.
func (d *Domain) Name() string { return d.name }

var (
	fileFields       = []string{"domain", "descriptors", "charging"}
	descriptorFields = []string{
		"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
		"detailed_metric", "value_to_metric", "share_threshold", "metadata",
	}
)

// Load reads the file at path as Parse does.
func Load(path string) (*Domain, error) {
	text, err := yamlfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a file of envoyproxy/ratelimit, with or without our additions; its name is only for errors. The error
// joins all problems, at most ten and in the order of the file, each with its line and column:
//
//	api.yaml:7:9: "requests_per_unti" is not a field of a rate_limit; did you mean "requests_per_unit"? (want one of ...)
//
// A problem with a limit wraps slidegate's error, so that errors.Is finds slidegate.ErrLimit.
func Parse(name string, text []byte) (*Domain, error) {
	r := &reader{file: name, where: map[*node]location{}}
	d := r.read(text)
	if err := r.Problems.Join(name); err != nil {
		return nil, err
	}
	return d, nil
}

// read reads a whole file. The result is only valid if there are no problems.
func (r *reader) read(text []byte) *Domain {
	d := &Domain{at: location{file: r.file}, where: r.where}
	root, at := r.Document(text, "write domain: and descriptors:", "a file has one domain, so put this into another file")
	if root == nil {
		return d
	}
	if !yamlfile.IsMapping(root) {
		r.Problems.Addf(at, "the file must be a mapping with domain and descriptors, not %s", yamlfile.Describe(root))
		return d
	}
	before := len(r.Problems)
	descriptors := yamlfile.Field{Name: "descriptors"}
	for _, f := range r.mapping(root, "the file", fileFields) {
		switch f.Name {
		case "domain":
			d.name, _ = r.Text(f)
		case "charging":
			d.at.Position = f.At
			d.charging = Charging(r.word(f, "a way of charging", chargingNames))
		case "descriptors":
			descriptors = f
		}
	}
	if d.name == "" && len(r.Problems) == before {
		r.Problems.Addf(at, "the file has no domain; write domain: and the name that Envoy sends")
	}
	r.charging = d.charging
	d.root = r.level(descriptors)
	return d
}

// level reads a list of descriptors.
func (r *reader) level(f yamlfile.Field) *level {
	items := r.items(f)
	if len(items) == 0 {
		return nil
	}
	if r.depth++; r.depth > yamlfile.MaxDepth {
		r.Problems.Addf(f.At, "descriptors are nested more than %d deep", yamlfile.MaxDepth)
		return nil
	}
	defer func() { r.depth-- }()
	l := newLevel()
	lines := map[pair]int{}
	for _, item := range items {
		at := yamlfile.PositionOf(item)
		n := r.descriptor(item)
		if n == nil {
			continue
		}
		if line, twice := lines[n.pair]; twice {
			r.Problems.Addf(at, "this descriptor has the same key and value as the one in line %d; merge them", line)
			continue
		}
		lines[n.pair] = at.Line
		l.add(n)
	}
	return l
}

// descriptor reads one descriptor. If it has no valid key, descriptor reports a problem and returns nil.
func (r *reader) descriptor(item ast.Node) *node {
	at := yamlfile.PositionOf(item)
	before := len(r.Problems)
	n := &node{}
	r.where[n] = location{r.file, at}
	var shadow, quota bool
	var metadata yamlfile.Field
	var rateLimit, share *yamlfile.Field
	for _, f := range r.mapping(item, "a descriptor", descriptorFields) {
		switch f.Name {
		case "key":
			n.key, _ = r.Text(f)
		case "value":
			n.value, _ = r.Text(f)
		case "rate_limit":
			rateLimit = &f
		case "descriptors":
			n.next = r.level(f)
		case "shadow_mode":
			shadow = r.boolean(f)
		case "quota_mode":
			quota = r.boolean(f)
		case "share_threshold":
			if n.shared = r.boolean(f); n.shared {
				share = &f
			}
		case "metadata":
			metadata = f
		case "detailed_metric", "value_to_metric":
			r.boolean(f) // our metrics never contain values
		}
	}
	if rateLimit != nil && r.hasValue(*rateLimit) {
		n.rule = r.rateLimit(*rateLimit)
		n.rule.shadow, n.rule.quotaMode = shadow, quota
		n.rule.metadata = r.metadata(metadata)
	}
	if share != nil && !strings.Contains(n.value, "*") {
		r.Problems.Addf(share.At, "share_threshold: is only for values with a *, whose matches then share one count")
	}
	switch {
	case n.key == "" && len(r.Problems) == before:
		r.Problems.Addf(at, "the descriptor has no key; write key: and the name of an entry")
	case strings.Contains(n.key, "*"):
		r.Problems.Addf(at, "key: %s contains a *, which only values can have; give the full key", errtext.Quote(n.key))
	case n.key != "":
		return n
	}
	return nil
}
