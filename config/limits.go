package config

import (
	"cmp"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/slidegate/slidegate"
	"github.com/slidegate/slidegate/internal/adapter"
	"github.com/slidegate/slidegate/internal/engine"
	"github.com/slidegate/slidegate/internal/errtext"
	"github.com/slidegate/slidegate/internal/yamlfile"
)

// limits reads the limits that apply to a request together.
func (r *reader) limits(e yamlfile.Field) []slidegate.Limit {
	limits, positions := r.limitsWithPositions(e)
	r.written = append(r.written, positionedLimits{limits, positions})
	return limits
}

// positionedLimits are limits that apply together, and their positions.
type positionedLimits struct {
	limits    []slidegate.Limit
	positions []yamlfile.Position
}

// limitsWithPositions is limits that also returns the position of each of them.
func (r *reader) limitsWithPositions(e yamlfile.Field) (limits []slidegate.Limit, positions []yamlfile.Position) {
	list, ok := e.Value.(*ast.SequenceNode)
	switch {
	case !ok:
		r.Problems.Addf(e.ValueAt(), "%s: must be a list, such as [100/1m, 1000/1h], not %s", e.Name, yamlfile.Describe(e.Value))
		return nil, nil
	case len(list.Values) == 0:
		r.Problems.Addf(e.ValueAt(), "%s: must have at least one, such as 100/1m", e.Name)
		return nil, nil
	}
	lines := map[string]int{}  // line of the limit with this prefix: limits with the same prefix share their state
	called := map[string]int{} // line of the limit with this name in headers
	for _, item := range list.Values {
		if !r.Visit(item) {
			break
		}
		limit, ok := r.limit(item)
		if !ok {
			continue
		}
		at := yamlfile.PositionOf(item)
		bound, err := adapter.Bind("", limit)
		if err != nil {
			r.Problems.Add(at, err)
			continue
		}
		if line, shared := lines[bound.Prefix()]; shared {
			r.Problems.Addf(at, sharedCounts, limit, line)
			continue
		}
		if err := checkLimitName(limit.Name); err != nil {
			r.Problems.Add(at, err)
			continue
		}
		label := cmp.Or(limit.Name, limit.String())
		if line, twice := called[label]; twice {
			r.Problems.Addf(at, "name: headers and metrics would name both this limit and the one on line %d %s; give each its own name", line, errtext.Quote(label))
			continue
		}
		lines[bound.Prefix()], called[label] = at.Line, at.Line
		limits, positions = append(limits, limit), append(positions, at)
	}
	return limits, positions
}

const sharedCounts = "the limit %q would share its counts with the one on line %d, which has the same name and shape; give it another name"

// checkLimitName rejects a name that is not valid in a header.
func checkLimitName(name string) error {
	for _, c := range []byte(name) {
		if c < ' ' || c > '~' {
			return fmt.Errorf("name: %s is not valid in a header; use printable ASCII", errtext.Quote(name))
		}
	}
	if len(name) > engine.MaxName {
		return fmt.Errorf("name: %s has %d bytes; use at most %d, since it is written in headers", errtext.Quote(name), len(name), engine.MaxName)
	}
	return nil
}
