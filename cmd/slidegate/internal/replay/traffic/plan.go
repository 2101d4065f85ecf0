package traffic

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/config"
)

// plan describes how each line of one format is processed.
type plan struct {
	wants    wants
	key      keyer
	cost     coster
	splitter *splitter // used instead of key and cost if policies are replayed
	other    *splitter // the splitter of Options.Against; nil if that is nil
	about    *about    // nil if not requested
	notes    []string
}

// planFor returns the plan for opts, or an error if the log lacks what they need.
func planFor(s shape, opts *Options) (*plan, error) {
	p := &plan{}
	filtered := opts.Filter.wants()
	for _, part := range filterParts {
		if filtered.has(part.field) && !s.fields().has(part.field) {
			return nil, s.missingField(part.option, fieldNames[part.field])
		}
	}
	p.wants.fields = filtered
	if opts.Match != nil {
		p.wants.fields |= s.fields() & setOf(fieldMethod, fieldHost, fieldPath)
	}
	if opts.About {
		p.planAbout(s)
	}
	if opts.Policies != nil {
		return p, p.planPolicies(s, opts)
	}
	var err error
	if p.key, err = p.planKey(s, opts.Key, opts.Grouping); err != nil {
		return nil, err
	}
	p.cost, err = p.planCost(s, opts.Cost, opts.IgnoreOwnCost)
	return p, err
}

func (p *plan) planKey(s shape, template config.Template, grouping clientip.Grouping) (k keyer, err error) {
	k = keyer{template: template, grouping: grouping}
	parts := template.Fields()
	if template.IsZero() {
		parts = []config.Field{{Kind: config.FieldAddress}}
		if s.format == FormatLines {
			parts = []config.Field{{Kind: config.FieldKey}}
		}
	}
	p.wants.fields |= s.fields() & setOf(fieldAddress)
	for _, part := range parts {
		slot, ok := p.want(s, part)
		if !ok {
			return k, s.missingField("Key", part.String())
		}
		k.slots = append(k.slots, slot)
	}
	k.values = make([][]byte, len(parts))
	return k, nil
}

func (p *plan) planCost(s shape, cost config.Cost, ignoreOwn bool) (c coster, err error) {
	if cost.IsZero() && s.format == FormatLines && !ignoreOwn {
		p.wants.fields |= setOf(fieldCost)
		return coster{source: costOwn}, nil
	}
	from, named := cost.Field()
	if !named {
		c.fixed, _ = cost.Fixed()
		return c, nil
	}
	slot, ok := p.want(s, from)
	if !ok {
		return c, s.missingField("Cost", from.String())
	}
	c = coster{source: costValue, value: slot, name: from.String()}
	switch from.Kind {
	case config.FieldBytes:
		c.source = costBytes
	case config.FieldHeader:
		c.source = costHeader
	}
	return c, nil
}

// kinds maps the kinds of fields in keys and costs to fields.
var kinds = map[config.FieldKind]field{
	config.FieldAddress: fieldAddress,
	config.FieldUser:    fieldUser,
	config.FieldMethod:  fieldMethod,
	config.FieldPath:    fieldPath,
	config.FieldQuery:   fieldQuery,
	config.FieldHost:    fieldHost,
	config.FieldStatus:  fieldStatus,
	config.FieldKey:     fieldKey,
	config.FieldBytes:   fieldBytes,
}

// want requests a field, and returns its index in the values of an entry, or false if the format does not have it.
func (p *plan) want(s shape, part config.Field) (slot int, ok bool) {
	f, known := kinds[part.Kind]
	if part.Kind == config.FieldHeader && strings.EqualFold(part.Name, "Host") {
		f, known = fieldHost, true // as in the keys of live requests
	}
	switch {
	case known:
		p.wants.fields |= setOf(f)
		return int(f), s.fields().has(f)
	case part.Kind == config.FieldHeader && !s.hasHeader(part.Name), part.Kind == config.FieldJSON && s.table == nil,
		part.Kind == config.FieldClaim: // tokens do not belong in logs
		return 0, false
	}
	p.wants.extras = append(p.wants.extras, part)
	return int(fieldCount) + len(p.wants.extras) - 1, true
}

func (s shape) hasHeader(name string) bool {
	if s.table != nil {
		return s.table.headers != nil
	}
	return slices.Contains(layouts[s.format].text.headers, textproto.CanonicalMIMEHeaderKey(name))
}
