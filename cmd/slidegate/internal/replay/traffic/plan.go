package traffic

import (
	"net/textproto"
	"slices"

	"github.com/slidegate/slidegate/config"
)

// plan is what is to be done with each line of one format.
type plan struct {
	wants wants
	key   keyer
	cost  coster
}

// planFor works out what opts want of a log, and refuses what it cannot have.
func planFor(s shape, opts *Options) (*plan, error) {
	p := &plan{}
	filtered := opts.Filter.wants()
	for _, part := range filterParts {
		if filtered.has(part.field) && !s.fields().has(part.field) {
			return nil, s.lacks(part.option, fieldNames[part.field])
		}
	}
	p.wants.fields = filtered
	if err := p.planKey(s, opts); err != nil {
		return nil, err
	}
	return p, p.planCost(s, opts)
}

func (p *plan) planKey(s shape, opts *Options) error {
	p.key.grouping = opts.Grouping
	p.key.template = opts.Key
	parts := opts.Key.Fields()
	if opts.Key.IsZero() {
		parts = []config.Field{{Kind: config.FieldAddress}}
		if s.format == FormatLines {
			parts = []config.Field{{Kind: config.FieldKey}}
		}
	}
	for _, part := range parts {
		slot, ok := p.want(s, part)
		if !ok {
			return s.lacks("Key", part.String())
		}
		p.key.slots = append(p.key.slots, slot)
	}
	p.key.values = make([][]byte, len(parts))
	return nil
}

func (p *plan) planCost(s shape, opts *Options) error {
	if opts.Cost.IsZero() && s.format == FormatLines && !opts.IgnoreOwnCost {
		p.cost.source = costOwn
		p.wants.fields |= setOf(fieldCost)
		return nil
	}
	from, named := opts.Cost.Field()
	if !named {
		p.cost.fixed, _ = opts.Cost.Fixed()
		return nil
	}
	slot, ok := p.want(s, from)
	if !ok {
		return s.lacks("Cost", from.String())
	}
	p.cost = coster{source: costValue, value: slot, name: from.String()}
	if from.Kind == config.FieldBytes {
		p.cost.source = costBytes
	}
	return nil
}

// kinds are the fields by the kinds that keys and costs know them by.
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

// want asks for a field, and returns its place in the values of an entry, or false if the format cannot have it.
func (p *plan) want(s shape, part config.Field) (slot int, ok bool) {
	f, known := kinds[part.Kind]
	switch {
	case known:
		p.wants.fields |= setOf(f)
		return int(f), s.fields().has(f)
	case part.Kind == config.FieldHeader && !s.hasHeader(part.Name), part.Kind == config.FieldJSON && s.table == nil:
		return 0, false
	}
	p.wants.extras = append(p.wants.extras, part)
	return int(fieldCount) + len(p.wants.extras) - 1, true
}

func (s shape) hasHeader(name string) bool {
	if s.table != nil {
		return s.table.headers != nil
	}
	return s.format == FormatCombined && slices.Contains(clfHeaders, textproto.CanonicalMIMEHeaderKey(name))
}
