package traffic

import (
	"strings"

	"github.com/slidegate/slidegate/clientip"
	"github.com/slidegate/slidegate/internal/fields"
)

// plan describes how each line of one format is processed.
type plan struct {
	wants    wants
	key      keyer
	cost     coster
	splitter *splitter // used instead of key and cost if policies are replayed
	other    *splitter // the splitter of Options.Against; nil if that is nil
	about    about
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
	p.planAbout(s)
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

func (p *plan) planKey(s shape, template fields.Template, grouping clientip.Grouping) (k keyer, err error) {
	k = keyer{template: template, grouping: grouping}
	parts := template.Fields()
	if template.IsZero() {
		parts = []fields.Field{{Kind: fields.Address}}
		if s.fields().has(fieldKey) {
			parts = []fields.Field{{Kind: fields.Key}}
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

func (p *plan) planCost(s shape, cost fields.Cost, ignoreOwn bool) (c coster, err error) {
	if cost.IsZero() && s.fields().has(fieldCost) && !ignoreOwn {
		p.wants.fields |= setOf(fieldCost)
		return coster{source: costOwn, value: int(fieldCost)}, nil
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
	case fields.Bytes:
		c.source = costBytes
	case fields.Header:
		c.source = costHeader
	}
	return c, nil
}

// kinds maps the kinds of fields in keys and costs to fields.
var kinds = map[fields.Kind]field{
	fields.Address: fieldAddress,
	fields.User:    fieldUser,
	fields.Method:  fieldMethod,
	fields.Path:    fieldPath,
	fields.Query:   fieldQuery,
	fields.Host:    fieldHost,
	fields.Status:  fieldStatus,
	fields.Key:     fieldKey,
	fields.Bytes:   fieldBytes,
}

// want requests a field, and returns its index in the values of an entry, or false if the format does not have it.
func (p *plan) want(s shape, part fields.Field) (slot int, ok bool) {
	f, known := kinds[part.Kind]
	if part.Kind == fields.Header && strings.EqualFold(part.Name, "Host") {
		f, known = fieldHost, true // as in the keys of live requests
	}
	switch {
	case known:
		p.wants.fields |= setOf(f)
		return int(f), s.fields().has(f)
	case part.Kind == fields.Header && !s.hasHeader(part.Name), part.Kind == fields.JSON && s.table == nil,
		part.Kind == fields.Claim: // tokens do not belong in logs
		return 0, false
	}
	p.wants.extras = append(p.wants.extras, part)
	return int(fieldCount) + len(p.wants.extras) - 1, true
}

// about holds the indexes of the fields of Line.About in the values of an entry; -1 if the format does not have them.
type about struct {
	method, path, agent, status int
}

// planAbout requests the fields of About that the format has.
func (p *plan) planAbout(s shape) {
	slot := func(field fields.Field) int {
		if f, known := kinds[field.Kind]; known && !s.fields().has(f) {
			return -1
		}
		if slot, ok := p.want(s, field); ok {
			return slot
		}
		return -1
	}
	p.about = about{
		method: slot(fields.Field{Kind: fields.Method}), path: slot(fields.Field{Kind: fields.Path}),
		agent: slot(fields.Field{Kind: fields.Header, Name: "User-Agent"}), status: slot(fields.Field{Kind: fields.Status}),
	}
}

func (a *about) of(e *entry) Details {
	value := func(slot int) []byte {
		if slot < 0 {
			return nil
		}
		return e.values[slot]
	}
	return Details{Method: value(a.method), Path: value(a.path), Agent: value(a.agent), Status: value(a.status)}
}
