package traffic

import (
	"fmt"
	"github.com/slidegate/slidegate/rule"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/jsonscan"
	"github.com/slidegate/slidegate/config"
)

// jsonParser parses logs with one JSON object per line.
type jsonParser struct {
	table  *jsonTable
	scan   jsonscan.Scanner
	clock  clock
	time   []int // slots in order of preference, as are all lists of slots here
	signs  []int
	values []wantedValue
}

// wantedValue is a value to extract from a line.
type wantedValue struct {
	into  int // the index in the values of an entry
	slots []int
}

// newJSONParser returns a parser that extracts what w wants. It also checks the paths, including those of the tables.
func newJSONParser(table *jsonTable, w wants) (*jsonParser, error) {
	p := &jsonParser{table: table}
	var err error
	if p.time, err = p.slots(table.time); err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	if p.signs, err = p.slots(table.signs); err != nil {
		return nil, err
	}
	for f := range fieldCount {
		// The query is part of the path, and is set with it.
		if f == fieldQuery || !w.fields.has(f) && !(f == fieldPath && w.fields.has(fieldQuery)) {
			continue
		}
		slots, err := p.slots(table.names[f])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fieldNames[f], err)
		}
		p.values = append(p.values, wantedValue{into: int(f), slots: slots})
	}
	for i, extra := range w.extras {
		slots, err := p.extraSlots(extra)
		if err != nil {
			return nil, err
		}
		p.values = append(p.values, wantedValue{into: int(fieldCount) + i, slots: slots})
	}
	return p, nil
}

// slots requests the members at some paths.
func (p *jsonParser) slots(paths []string) ([]int, error) {
	var slots []int
	for _, path := range paths {
		names, err := jsonscan.SplitPath(path)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", path, err)
		}
		slots = append(slots, p.scan.Slot(names, false))
	}
	return slots, nil
}

func (p *jsonParser) extraSlots(extra config.Field) ([]int, error) {
	if extra.Kind == config.FieldJSON {
		return p.slots([]string{extra.Name})
	}
	var slots []int
	for _, names := range p.table.headers(extra.Name) {
		slots = append(slots, p.scan.Slot(names, true))
	}
	return slots, nil
}

func (p *jsonParser) parse(line []byte, e *entry) (why string) {
	if !p.scan.Read(line) {
		return "JSON: " + p.scan.Reason()
	}
	if len(p.signs) > 0 && p.first(p.signs) == nil {
		return "request: not a request: the line has none of " + strings.Join(p.table.signs, ", ")
	}
	if why := p.parseTime(e); why != "" {
		return why
	}
	for i := range p.values {
		w := &p.values[i]
		raw := p.first(w.slots)
		if p.table.isLines && w.into < int(fieldCount) && len(raw) > 0 && (raw[0] == '[' || raw[0] == '{') {
			return fieldNames[w.into] + ": must be a string or a number"
		}
		text := p.scan.Text(raw)
		if !p.table.isLines && w.into != int(fieldBytes) {
			text = present(text)
		}
		if w.into == int(fieldPath) {
			e.setTarget(text, text != nil)
			continue
		}
		e.values[w.into] = text
	}
	return ""
}

func (p *jsonParser) parseTime(e *entry) (why string) {
	raw := p.first(p.time)
	if raw == nil {
		return "time: " + strings.Join(p.table.time, " or ") + " is missing"
	}
	e.time = raw
	if p.table.isLines && raw[0] != '"' {
		at, _, ok := decimal(raw, 3)
		if !ok {
			return "time: " + p.table.time[0] + " must be milliseconds since 1970 or a string"
		}
		return e.setTime(rule.Micros(at))
	}
	at, ok := p.clock.parse(p.scan.Text(raw))
	if !ok {
		return "time: want a time such as 2006-01-02T15:04:05Z, with a zone, or a number since 1970"
	}
	return e.setTime(at)
}

// first returns the raw value of the first of some members that the line has. Null counts as missing; a placeholder for a
// missing value is returned only if no other member has a value.
func (p *jsonParser) first(slots []int) []byte {
	var placeholder []byte
	for _, slot := range slots {
		raw := p.scan.Raw(slot)
		switch {
		case len(raw) == 0 || raw[0] == 'n':
		case !p.table.isLines && (string(raw) == `""` || string(raw) == `"-"`):
			placeholder = raw
		default:
			return raw
		}
	}
	return placeholder
}
